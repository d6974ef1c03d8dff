import { createPrivateKey } from 'node:crypto';
import type { DescService } from '@bufbuild/protobuf';
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
import {
  createClient,
  RpcChannel,
  RpcError,
  type Client,
  type Upgrade,
} from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import type { OwnerKey } from '../../workspace/index.ts';
import type { MachineTrust } from './machine-trust.ts';

const ANSWER_MS = 10_000;

/** A machine, as the operator specified it. */
export interface Machine {
  /** "host:port". */
  readonly endpoint: string;
  /** "sha256:HEX" of the machine's public key; undefined when its evidence alone identifies it. */
  readonly fingerprint: string | undefined;
}

/** The machine to connect to, and the evidence on both sides. */
export interface SessionOptions {
  readonly machine: Machine;
  /** Proves possession of the owner key. */
  readonly owner: Issuer;
  readonly trust: MachineTrust;
  readonly clock: Clock;
}

/** Connections to the init service over attested TLS: we prove the owner key, the machine presents evidence. */
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

  /** All calls share one connection, which is opened on demand. */
  get client(): Client<typeof InitApi> {
    return this.clientOf(InitApi);
  }

  /** A client of another contract on the same connection. */
  clientOf<S extends DescService>(service: S): Client<S> {
    return createClient(service, this.#channel);
  }

  /** The machine's evidence on the current connection; undefined before the first one. */
  get peer(): AttestedPeer | undefined {
    return this.#channel.peer;
  }

  /** Drops the connection, for example after a missing heartbeat; the next call opens a new one. */
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

/** Issues the owner's evidence: a signature over the binding of the session. */
export function ownerIssuer(ownerKey: OwnerKey): Issuer {
  return new OwnerKeyIssuer({ privKey: new Secret(createPrivateKey(ownerKey.keyPem.reveal())) });
}

/** Attested TLS with a machine that proves a key; `fingerprint` undefined accepts any key. */
export function machineKeyUpgrade(options: {
  readonly owner: Issuer;
  readonly clock: Clock;
  /** "sha256:HEX" */
  readonly fingerprint?: string | undefined;
}): Upgrade<AttestedPeer> {
  const { owner, clock } = options;
  const hex = options.fingerprint?.replace(/^sha256:/, '');
  return atlsClientUpgrade({
    trust: {
      trust: 'mutual',
      shows: [owner],
      accepts: [new MachineKeyValidator({ fingerprints: hex === undefined ? 'any' : new Set([hex]) })],
      rules: () => ({ ...REJECT_ALL_RULES, policy: { ...REJECT_ALL_RULES.policy, machines: 'any' } }),
    },
    context: INIT_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
  });
}

/**
 * The fingerprint of the key that the machine proved, for a person to compare with its console.
 * @returns "sha256:HEX"
 */
export async function fetchFingerprint(
  endpoint: string,
  options: { readonly owner: Issuer; readonly clock: Clock },
  signal: AbortSignal,
): Promise<string> {
  using channel = new RpcChannel({ endpoint, upgrade: machineKeyUpgrade(options) });
  const request = { clientVersion: VERSION };
  await createClient(InitApi, channel).describe(request, { signal, timeoutMs: ANSWER_MS });
  if (channel.peer === undefined)
    throw new RpcError('rpc-unreachable', `connecting to ${endpoint}: connection lost`);
  return `sha256:${channel.peer.machineIdentity.id}`;
}
