import { createHash, type KeyObject } from 'node:crypto';
import {
  atlsServerUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../internal/atls/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import { ownerPubKeyFromRaw, OwnerKeyValidator } from '../../internal/attestation/ownerkey/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import {
  implement,
  RpcServer,
  type Handlers,
  type Implementation,
  type Upgrade,
} from '../../internal/rpc/index.ts';
import { InitApi } from '../../initproto/gen/init_pb.js';
import { createInitHandlers, type InitServicePorts, type OwnerPeer } from './init-service.ts';

const MAX_CONNECTIONS = 64;
/** A connection is closed gracefully after this time, so that both ends attest again with fresh evidence. */
const MAX_CONNECTION_AGE_MS = 60 * 60 * 1000;

/** The owners that may call, and the evidence that this machine shows to them. */
export interface OwnerServerOptions {
  /** The evidence that this machine shows, the preferred issuer first: `MachineEvidence.issuers`. */
  readonly shows: readonly [Issuer, ...Issuer[]];
  /** Raw Ed25519 public keys, 32 bytes each. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** Contracts that owners may use beside the Init contract, in the same session. */
  readonly also: readonly Implementation<OwnerPeer>[];
  readonly clock: Clock;
  readonly log: Logger;
}

/** The server of the Init contract of a machine that is ready for an init. */
export function createInitServer(ports: InitServicePorts, options: OwnerServerOptions): RpcServer<OwnerPeer> {
  return createOwnerServer(createInitHandlers(ports), options);
}

/**
 * A server of the Init contract. It serves only callers that prove, for this session, that they hold an
 * owner key of this machine's provisioning. The machine creates its own evidence only after that proof, so
 * that an unauthenticated client cannot make it quote its TPM.
 */
export function createOwnerServer(
  handlers: Handlers<typeof InitApi, OwnerPeer>,
  options: OwnerServerOptions,
): RpcServer<OwnerPeer> {
  const { shows: issuers, ownerKeys, also: extraServices, clock, log } = options;
  const upgrade = atlsServerUpgrade({
    trust: {
      trust: 'mutual',
      shows: issuers,
      accepts: [new OwnerKeyValidator({ ownerKeys })],
      rules: () => REJECT_ALL_RULES,
    },
    context: INIT_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
  });
  return new RpcServer<OwnerPeer>({
    clock,
    upgrade: ownersOnly(upgrade, ownerKeys),
    services: [implement(InitApi, handlers), ...extraServices],
    disclose: 'chain',
    log,
    maxConnections: MAX_CONNECTIONS,
    maxConnectionAgeMs: MAX_CONNECTION_AGE_MS,
  });
}

/**
 * Finds the key of the authenticated owner. The result of the authentication has only the hash of the key,
 * but the handlers verify signatures with the key.
 */
function ownersOnly(upgrade: Upgrade<AttestedPeer>, ownerKeys: readonly Uint8Array[]): Upgrade<OwnerPeer> {
  const owners = new Map<string, KeyObject>(
    ownerKeys.map((raw) => [createHash('sha256').update(raw).digest('hex'), ownerPubKeyFromRaw(raw)]),
  );
  return async (tcp, signal) => {
    const { socket, peer } = await upgrade(tcp, signal);
    const publicKey = owners.get(peer.machineIdentity.id);
    if (peer.variant !== 'owner-key' || publicKey === undefined) {
      socket.destroy();
      throw new TypeError(`expected an owner, got ${peer.variant} ${peer.machineIdentity.id}`);
    }
    return { socket, peer: { kind: 'owner', publicKey, session: peer.session } };
  };
}
