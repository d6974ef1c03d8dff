import { createPrivateKey } from 'node:crypto';
import { connect } from 'node:net';
import { InitApi } from '../../../initproto/gen/init_pb.js';
import {
  atlsClientUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../../internal/atls/index.ts';
import type { Issuer } from '../../../internal/attestation/index.ts';
import { MachineKeyValidator } from '../../../internal/attestation/machinekey/index.ts';
import { OwnerKeyIssuer } from '../../../internal/attestation/ownerkey/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { splitEndpoint } from '../../../internal/endpoint/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import {
  createClient,
  RpcChannel,
  RpcError,
  type Client,
  type Upgrade,
} from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { OwnerKey } from '../../workspace/index.ts';
import type { MachineTrust } from './machine-trust.ts';

/** A machine, as the operator named it. */
export interface Machine {
  /** "host:port". */
  readonly endpoint: string;
  /** "sha256:HEX" of the machine's public key; undefined where its evidence alone tells which machine it is. */
  readonly fingerprint: string | undefined;
}

export interface SessionOptions {
  readonly machine: Machine;
  /** Shows the owner key. */
  readonly owner: Issuer;
  readonly trust: MachineTrust;
  readonly clock: Clock;
}

/** A session of attested TLS with the machine: the owner key on our side, the machine's evidence on the other. */
export class InitSession implements Disposable {
  readonly machine: Machine;
  readonly trust: MachineTrust;
  readonly #upgrade: Upgrade<AttestedPeer>;
  #channel: RpcChannel<AttestedPeer>;

  constructor({ machine, owner, trust, clock }: SessionOptions) {
    this.machine = machine;
    this.trust = trust;
    this.#upgrade = atlsClientUpgrade({
      trust: { trust: 'mutual', shows: [owner], accepts: trust.accepts, rules: () => trust.rules() },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    });
    this.#channel = this.#connect();
  }

  /** Calls go over one connection, made when it is needed. */
  get client(): Client<typeof InitApi> {
    return createClient(InitApi, this.#channel);
  }

  /** What the machine proved on the newest connection; undefined before the first. */
  get peer(): AttestedPeer | undefined {
    return this.#channel.peer;
  }

  /** Lets go of a connection that is dead and does not know it; the next call makes another. */
  renew(): void {
    this.#channel[Symbol.dispose]();
    this.#channel = this.#connect();
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }

  #connect(): RpcChannel<AttestedPeer> {
    return new RpcChannel({ endpoint: this.machine.endpoint, upgrade: this.#upgrade });
  }
}

/** The owner's half of every session: a signature over its binding. */
export function ownerIssuer(ownerKey: OwnerKey): Issuer {
  return new OwnerKeyIssuer({ privKey: new Secret(createPrivateKey(ownerKey.keyPem.reveal())) });
}

/** The fingerprint of the machine at an address, for a person to compare: of the key that it proved to hold. */
export async function fetchFingerprint(
  endpoint: string,
  options: { readonly owner: Issuer; readonly clock: Clock },
  signal: AbortSignal,
): Promise<string> {
  const { owner, clock } = options;
  const upgrade = atlsClientUpgrade({
    trust: {
      trust: 'mutual',
      shows: [owner],
      accepts: [new MachineKeyValidator({ fingerprints: 'any' })],
      rules: () => ({ ...REJECT_ALL_RULES, policy: { ...REJECT_ALL_RULES.policy, machines: 'any' } }),
    },
    context: INIT_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
  });
  const socket = connect(splitEndpoint(endpoint));
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject);
      signal.addEventListener('abort', () => socket.destroy(signal.reason as Error), { once: true });
    });
    const { peer } = await upgrade(socket, signal);
    return `sha256:${peer.machineIdentity.id}`;
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof CodedError) throw cause;
    throw new RpcError('rpc-unreachable', `asking ${endpoint} for its fingerprint`, { cause });
  } finally {
    socket.on('error', () => undefined); // it has told us enough
    socket.destroy();
  }
}
