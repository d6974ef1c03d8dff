import type { X509Certificate } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import {
  fingerprintOfKey,
  spkiDerOf,
  verifyMemberCertificate,
  type MemberIdentity,
  type MemberTrust,
} from '../../internal/pki/index.ts';
import { RpcError, tlsServerUpgrade, type TlsIdentity, type Upgrade } from '../../internal/rpc/index.ts';

/**
 * Anybody can connect with a self-signed certificate, so few such connections are allowed, and only for a
 * short time.
 */
const MAX_KEY_ONLY = 16;
const MAX_STAY_MS = 10_000;

/**
 * TLS for the curator. Members show a certificate of the cluster. Operators who lost their certificate show
 * one that their own key signed, and may then only request a new certificate (`authorizeCaller`).
 */
export function curatorUpgrade(
  identity: TlsIdentity,
  trust: MemberTrust,
  clock: Clock,
): Upgrade<MemberIdentity> {
  const upgrade = tlsServerUpgrade({
    clock,
    identity,
    accept: (certificate) =>
      keyOnlyOperatorFrom(certificate, trust.clusterId) ?? verifyMemberCertificate(certificate, trust),
  });
  let taken = 0;
  return async (tcp, signal) => {
    const upgraded = await upgrade(tcp, signal);
    const { socket, peer } = upgraded;
    if (peer.kind !== 'operator' || peer.isKeyOnly !== true) return upgraded;
    if (taken >= MAX_KEY_ONLY || socket.destroyed) {
      socket.destroy();
      throw new RpcError(
        'rpc-unreachable',
        `accepting an operator without a certificate: ${taken} are already connected`,
      );
    }
    taken++;
    const stay = new AbortController();
    socket.once('close', () => {
      taken--;
      stay.abort(new Error('connection closed'));
    });
    clock.sleep(MAX_STAY_MS, stay.signal).then(
      () => socket.destroy(),
      () => undefined,
    );
    return upgraded;
  };
}

function keyOnlyOperatorFrom(certificate: X509Certificate, clusterId: string): MemberIdentity | undefined {
  const { publicKey } = certificate;
  if (publicKey.asymmetricKeyType !== 'ed25519') return undefined;
  if (!certificate.checkIssued(certificate) || !certificate.verify(publicKey)) return undefined;
  const fingerprint = fingerprintOfKey(spkiDerOf(publicKey));
  return { kind: 'operator', clusterId, name: fingerprint, fingerprint, isKeyOnly: true };
}
