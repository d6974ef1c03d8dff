import { createPublicKey, type KeyObject, type X509Certificate } from 'node:crypto';
import type { Logger } from '../../internal/logging/index.ts';
import {
  fingerprintOf,
  implement,
  RpcError,
  RpcServer,
  tlsServerUpgrade,
  type TlsIdentity,
} from '../../internal/rpc/index.ts';
import { InitApi } from '../../initproto/gen/init_pb.js';
import { createInitHandlers, type InitServicePorts, type OwnerPeer } from './init-service.ts';

const MAX_CONNECTIONS = 64;
/** SubjectPublicKeyInfo of an Ed25519 key up to the raw key (RFC 8410). */
const ED25519_SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/**
 * The server of the Init contract. Nothing is logged to or streamed to a caller who has not proved in the handshake that
 * it holds one of the owner keys this machine was provisioned with; there is at least one.
 */
export function createInitServer(
  ports: InitServicePorts,
  options: {
    readonly identity: TlsIdentity;
    /** Raw Ed25519 public keys, 32 bytes each. */
    readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
    readonly log: Logger;
  },
): RpcServer<OwnerPeer> {
  const owners = options.ownerKeys.map(publicKeyFromRaw);
  const accept = (certificate: X509Certificate): OwnerPeer => {
    const owner = owners.find((key) => key.equals(certificate.publicKey));
    if (owner === undefined)
      throw new RpcError(
        'rpc-handshake',
        `accepting a caller: ${fingerprintOf(certificate)} is no owner of this machine`,
      );
    return { kind: 'owner', publicKey: owner };
  };
  return new RpcServer<OwnerPeer>({
    upgrade: tlsServerUpgrade({ identity: options.identity, accept }),
    services: [implement(InitApi, createInitHandlers(ports))],
    disclose: 'chain',
    log: options.log,
    maxConnections: MAX_CONNECTIONS,
  });
}

function publicKeyFromRaw(raw: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([ED25519_SPKI_PREFIX, raw]), format: 'der', type: 'spki' });
}
