import { createPrivateKey, X509Certificate } from 'node:crypto';
import { selfSignedCertificate } from '../../../internal/crypto/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  certificateTimesOf,
  createCertificateRequest,
  isIssuedByOneOf,
  renewalTimeOf,
  verifyMemberCertificate,
} from '../../../internal/pki/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';

const MAX_BYTES = 64 * 1024;

/** Credentials of a caller for curators. */
export interface OperatorCertificate {
  /** The certificate as PEM; it may be expired. */
  readonly certPem: string;
  /** File for the renewed certificate. */
  readonly certPath: string;
  readonly keyPem: Secret<string>;
  readonly clusterId: string;
  readonly clusterCaPem: string;
}

/**
 * The age of a caller's certificate. A certificate is also `due` once the CA that signed it was replaced: curators
 * accept it only until all nodes have certificates of the next CA.
 */
export function operatorCertificateAge(
  { certPem, clusterCaPem }: Pick<OperatorCertificate, 'certPem' | 'clusterCaPem'>,
  nowMs: number,
): 'valid' | 'due' | 'expired' {
  const age = certificateAge(certPem, nowMs);
  return age === 'valid' && !isIssuedByOneOf(new X509Certificate(certPem), clusterCaPem) ? 'due' : age;
}

/** A certificate is `due` for renewal, but still valid, after two thirds of its lifetime. */
export function certificateAge(certPem: string, nowMs: number): 'valid' | 'due' | 'expired' {
  const times = certificateTimesOf(certPem);
  if (nowMs < renewalTimeOf(times)) return 'valid';
  return nowMs < times.notAfterMs ? 'due' : 'expired';
}

/**
 * The certificate from the init or the grant, or its renewed successor, whichever expires later. A file that is no
 * certificate of this caller is ignored: the certificate is renewed in time.
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
      isIssuedByOneOf(certificate, clusterCaPem);
    const isNewer =
      Date.parse(certificate.validTo) > certificateTimesOf(given).notAfterMs ||
      !isIssuedByOneOf(new X509Certificate(given), clusterCaPem);
    return isOurs && isNewer ? kept : given;
  } catch {
    return given;
  }
}

/** A self-signed certificate, which proves only the key. Curators accept it for a renewal and nothing else. */
export function keyOnlyCertificate({ keyPem }: OperatorCertificate, nowMs: number): Promise<string> {
  return selfSignedCertificate({ keyPem: keyPem.reveal(), commonName: 'operator', nowMs });
}

/**
 * Requests a new certificate and saves it for later commands.
 * @param sign sends the certificate request (PKCS#10 DER) and returns the certificate as PEM
 * @throws ClusterError `cluster-result-invalid` when the certificate is not for this caller
 */
export async function renewCertificate(
  { ports, host }: CommandContext,
  caller: OperatorCertificate,
  sign: (certificateRequest: Uint8Array) => Promise<string>,
): Promise<string> {
  const { keyPem, clusterId, clusterCaPem: caPem, certPath } = caller;
  const certPem = await sign(await createCertificateRequest(keyPem, 'operator'));
  try {
    const certificate = new X509Certificate(certPem);
    const { kind } = verifyMemberCertificate(certificate, {
      caPem,
      clusterId,
      nowMs: () => ports.clock.nowMs(),
    });
    if (kind !== 'operator' || !certificate.checkPrivateKey(createPrivateKey(keyPem.reveal())))
      throw new TypeError('the certificate is for a different key or role');
  } catch (cause) {
    throw new ClusterError('cluster-result-invalid', 'renewing operator certificate', { cause });
  }
  try {
    await ports.files.writeAtomic(certPath, certPem, { mode: 0o600 });
  } catch (error) {
    // This command uses the certificate although it cannot be saved; the next command requests another one.
    host.warn(
      'operator-certificate-not-kept',
      `cannot save the renewed certificate: ${describeError(error)}`,
    );
  }
  return certPem;
}
