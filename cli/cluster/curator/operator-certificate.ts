import { createPrivateKey, X509Certificate } from 'node:crypto';
import { selfSignedCertificate } from '../../../internal/crypto/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  certificateTimesOf,
  createCertificateRequest,
  renewalTimeOf,
  verifyMemberCertificate,
} from '../../../internal/pki/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';

const MAX_BYTES = 64 * 1024;

/** What shows curators who a member is. */
export interface OperatorCertificate {
  /** It may have run out. */
  readonly certPem: string;
  /** Where it is kept once it was renewed. */
  readonly certPath: string;
  readonly keyPem: Secret<string>;
  readonly clusterId: string;
  readonly clusterCaPem: string;
}

/** Past two thirds of its life a certificate is due to be renewed, and can still be shown. */
export function certificateAge(certPem: string, nowMs: number): 'good' | 'due' | 'over' {
  const times = certificateTimesOf(certPem);
  if (nowMs < renewalTimeOf(times)) return 'good';
  return nowMs < times.notAfterMs ? 'due' : 'over';
}

/**
 * The certificate that came with the init or the grant, or the one that it was renewed with, whichever is good for
 * longer. What is no certificate of this member counts for nothing: another one is asked for in time.
 */
export async function newestCertificate(
  files: Pick<FilePort, 'read'>,
  { certPem: given, certPath, keyPem, clusterCaPem }: OperatorCertificate,
): Promise<string> {
  const raw = await files.read(certPath, MAX_BYTES);
  if (raw === undefined) return given;
  const kept = Buffer.from(raw).toString('utf8');
  try {
    const certificate = new X509Certificate(kept);
    const isOurs =
      certificate.checkPrivateKey(createPrivateKey(keyPem.reveal())) &&
      certificate.verify(new X509Certificate(clusterCaPem).publicKey);
    return isOurs && Date.parse(certificate.validTo) > certificateTimesOf(given).notAfterMs ? kept : given;
  } catch {
    return given;
  }
}

/** What shows a member's key alone: curators give it a certificate for that, and nothing else. */
export function keyOnlyCertificate({ keyPem }: OperatorCertificate, nowMs: number): Promise<string> {
  return selfSignedCertificate({ keyPem: keyPem.reveal(), commonName: 'operator', nowMs });
}

/**
 * A fresh certificate from whoever answers requests, kept for later commands.
 * @throws ClusterError `cluster-result-invalid` for one that is no use
 */
export async function renewCertificate(
  { ports, host }: CommandContext,
  member: OperatorCertificate,
  sign: (certificateRequest: Uint8Array) => Promise<string>,
): Promise<string> {
  const { keyPem, clusterId, clusterCaPem: caPem, certPath } = member;
  const certPem = await sign(await createCertificateRequest(keyPem, 'operator'));
  try {
    const certificate = new X509Certificate(certPem);
    const { kind } = verifyMemberCertificate(certificate, {
      caPem,
      clusterId,
      nowMs: () => ports.clock.nowMs(),
    });
    if (kind !== 'operator' || !certificate.checkPrivateKey(createPrivateKey(keyPem.reveal())))
      throw new TypeError('it is for somebody else');
  } catch (cause) {
    throw new ClusterError('cluster-result-invalid', 'renewing the certificate of an operator', { cause });
  }
  try {
    await ports.files.writeAtomic(certPath, certPem, { mode: 0o600 });
  } catch (error) {
    // It is good for this command, and the next one asks for another.
    host.warn('operator-certificate-not-kept', `${certPath}: ${describeError(error)}`);
  }
  return certPem;
}
