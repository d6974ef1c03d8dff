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

/** Anybody can show a key of their own: few at once, and not for long. */
const PLACES = 16;
const STAY_MS = 10_000;

/**
 * Members by certificate, and owners who have lost theirs by the key alone: a certificate that their key has signed for
 * itself. Such a one is asked one thing (`admission.ts`), and only if its key is on record as an owner's.
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
      bareOwnerFrom(certificate, trust.clusterId) ?? verifyMemberCertificate(certificate, trust),
  });
  let taken = 0;
  return async (tcp, signal) => {
    const upgraded = await upgrade(tcp, signal);
    const { socket, peer } = upgraded;
    if (peer.kind !== 'operator' || peer.isKeyOnly !== true) return upgraded;
    if (taken >= PLACES || socket.destroyed) {
      socket.destroy();
      throw new RpcError('rpc-unreachable', `letting an owner in by the key: ${taken} are here already`);
    }
    taken++;
    const stay = new AbortController();
    socket.once('close', () => {
      taken--;
      stay.abort(new Error('it has left'));
    });
    clock.sleep(STAY_MS, stay.signal).then(
      () => socket.destroy(),
      () => undefined,
    );
    return upgraded;
  };
}

function bareOwnerFrom(certificate: X509Certificate, clusterId: string): MemberIdentity | undefined {
  const { publicKey } = certificate;
  if (publicKey.asymmetricKeyType !== 'ed25519') return undefined;
  if (!certificate.checkIssued(certificate) || !certificate.verify(publicKey)) return undefined;
  const fingerprint = fingerprintOfKey(spkiDerOf(publicKey));
  return { kind: 'operator', clusterId, name: fingerprint, fingerprint, isKeyOnly: true };
}
