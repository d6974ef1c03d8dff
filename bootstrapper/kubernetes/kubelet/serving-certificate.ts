import { readText } from '../../../internal/file/index.ts';
import { certificateTimesOf, type CertificateTimes } from '../../../internal/pki/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { KUBELET_UNIT } from '../node/units.ts';

/** Copy of the serving certificate with which the kubelet was started. */
export const SERVED_CERT_COPY = `${KUBELET_FILES.servingCert}.shown`;
const LONG_DUE: CertificateTimes = { issuedMs: 0, notAfterMs: 0 };

/** Ports (injected dependencies) of the renewal of the serving certificate. */
export type ServingCertificatePorts = Pick<SystemPorts, 'files' | 'units'>;

/** Copies the serving certificate on disk. Call this when the kubelet starts with this certificate. */
export async function recordServingCertificate({
  files,
}: Pick<ServingCertificatePorts, 'files'>): Promise<void> {
  const certPem = await readText(files, KUBELET_FILES.servingCert);
  if (certPem !== undefined) await files.writeAtomic(SERVED_CERT_COPY, certPem);
}

/**
 * Returns the validity of the serving certificate that a running kubelet presents, if another certificate is
 * on disk. The kubelet reloads the file, but not for clients that connect by address, as the API server does.
 * The reason is Go's crypto/tls, which requests a current certificate only for connections with a server name
 * (Config.getCertificate). A new certificate requires no restart until the presented certificate is due for
 * renewal.
 */
export async function servedCertificateTimes(
  { files, units }: ServingCertificatePorts,
  signal: AbortSignal,
): Promise<CertificateTimes | undefined> {
  const placed = await readText(files, KUBELET_FILES.servingCert);
  if (placed === undefined) return undefined;
  const shown = await readText(files, SERVED_CERT_COPY);
  if (shown === placed) return undefined;
  if ((await units.status(KUBELET_UNIT, signal)).active !== 'active') return undefined;
  try {
    return shown === undefined ? LONG_DUE : certificateTimesOf(shown);
  } catch {
    return LONG_DUE; // The stored copy of the presented certificate is unreadable, so the kubelet is restarted.
  }
}

/**
 * Restarts the kubelet; pods keep running. After a crash before the copy is written, the kubelet is restarted
 * once more.
 */
export async function restartForServingCertificate(
  ports: ServingCertificatePorts,
  signal: AbortSignal,
): Promise<void> {
  await ports.units.restart(KUBELET_UNIT, signal);
  await recordServingCertificate(ports);
}
