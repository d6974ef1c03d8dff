import { createClient } from '../rpc/index.ts';
import type { EtcdConnection } from './connection.ts';
import { EtcdError } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import { Permission_Type } from './proto/gen/authpb_pb.js';
import { Auth } from './proto/gen/etcdserverpb_pb.js';
import { keyBytes, prefixRange } from './wire.ts';

/**
 * One key, or all keys with a prefix, that a role may read. Without `access: 'read'` the role may also
 * write them.
 */
export type Permission = (
  { readonly kind: 'key'; readonly key: string } | { readonly kind: 'prefix'; readonly prefix: string }
) & { readonly access?: 'read' };

/** A user that authenticates with a client certificate, and its role of the same name. */
export interface EtcdUser {
  readonly name: string;
  /** Empty for etcd's root user, which has all permissions. */
  readonly permissions: readonly Permission[];
}

/** The users and roles of etcd. Every step is idempotent. Needs the root user once access control is enabled. */
export class AccessControl {
  readonly #connection: EtcdConnection;

  constructor(connection: EtcdConnection) {
    this.#connection = connection;
  }

  /** Creates the user and its role, and sets exactly the given permissions. */
  async ensureUser(user: EtcdUser, options: CallOptions): Promise<void> {
    const { name } = user;
    await ignoringExisting(() =>
      this.#call(`adding etcd role ${name}`, options, (auth, call) => auth.roleAdd({ name }, call)),
    );
    await this.#ensureGrants(user, options);
    await ignoringExisting(() =>
      this.#call(`adding etcd user ${name}`, options, (auth, call) =>
        auth.userAdd({ name, options: { noPassword: true } }, call),
      ),
    );
    const { roles } = await this.#call(`reading etcd user ${name}`, options, (auth, call) =>
      auth.userGet({ name }, call),
    );
    if (roles.includes(name)) return;
    await this.#call(`granting etcd role ${name}`, options, (auth, call) =>
      auth.userGrantRole({ user: name, role: name }, call),
    );
  }

  /** Whether access control is enabled. */
  async isEnabled(options: CallOptions): Promise<boolean> {
    const { enabled } = await this.#call(
      'reading whether etcd access control is enabled',
      options,
      (auth, call) => auth.authStatus({}, call),
    );
    return enabled;
  }

  /** Enables access control: from now on every call needs a user with the permission. Needs the user "root". */
  async enable(options: CallOptions): Promise<void> {
    await this.#call('enabling etcd access control', options, (auth, call) => auth.authEnable({}, call));
  }

  async #ensureGrants({ name, permissions: grants }: EtcdUser, options: CallOptions): Promise<void> {
    const { perm: held } = await this.#call(`reading etcd role ${name}`, options, (auth, call) =>
      auth.roleGet({ role: name }, call),
    );
    const wanted = grants.map((grant) => ({ ...rangeOf(grant), permType: permissionOf(grant) }));
    for (const perm of wanted) {
      if (held.some((each) => isSame(each, perm) && each.permType === perm.permType)) continue;
      await this.#call(`granting permission to etcd role ${name}`, options, (auth, call) =>
        auth.roleGrantPermission({ name, perm }, call),
      );
    }
    if (name === 'root') return; // The built-in role "root" has all permissions.
    for (const { key, rangeEnd } of held.filter((each) => !wanted.some((range) => isSame(each, range)))) {
      await this.#call(`revoking permission from etcd role ${name}`, options, (auth, call) =>
        auth.roleRevokePermission({ role: name, key, rangeEnd }, call),
      );
    }
  }

  #call<T>(
    doing: string,
    options: CallOptions,
    work: (auth: AuthClient, call: CallOptions) => Promise<T>,
  ): Promise<T> {
    return this.#connection.read(doing, options, (channel, call) => work(createClient(Auth, channel), call));
  }
}

type AuthClient = ReturnType<typeof createClient<typeof Auth>>;

interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

function rangeOf(grant: Permission): KeyRange {
  return grant.kind === 'key'
    ? { key: keyBytes(grant.key), rangeEnd: new Uint8Array() }
    : prefixRange(grant.prefix);
}

function permissionOf({ access }: Permission): Permission_Type {
  return access === 'read' ? Permission_Type.READ : Permission_Type.READWRITE;
}

function isSame(a: KeyRange, b: KeyRange): boolean {
  return Buffer.compare(a.key, b.key) === 0 && Buffer.compare(a.rangeEnd, b.rangeEnd) === 0;
}

async function ignoringExisting(create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (!(error instanceof EtcdError && error.code === 'etcd-exists')) throw error;
  }
}
