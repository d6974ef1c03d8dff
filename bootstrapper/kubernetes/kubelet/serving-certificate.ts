import { readText, type FilePort } from '../../../internal/file/index.ts';
import { certificateTimesOf, type CertificateTimes } from '../../../internal/pki/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { KUBELET_UNIT } from '../node/units.ts';

/** Copy of the serving certificate with which the kubelet was started. */
export const SERVED_CERT_COPY = `${KUBELET_FILES.servingCert}.shown`;
/** Copy of the CAs of API servers with which the kubelet was started. */
const USED_CA_COPY = `${KUBELET_FILES.ca}.used`;
const LONG_DUE: CertificateTimes = { issuedMs: 0, notAfterMs: 0 };

/** Ports (injected dependencies) of the renewal of the serving certificate. */
export type ServingCertificatePorts = Pick<SystemPorts, 'files' | 'units'>;

/** Copies the files on disk that the kubelet reads only at its start. Call this function when the kubelet starts. */
export async function recordServingCertificate({
  files,
}: Pick<ServingCertificatePorts, 'files'>): Promise<void> {
  for (const [path, copy] of [
    [KUBELET_FILES.servingCert, SERVED_CERT_COPY],
    [KUBELET_FILES.ca, USED_CA_COPY],
  ] as const) {
    const pem = await readText(files, path);
    if (pem !== undefined) await files.writeAtomic(copy, pem);
  }
}

/**
 * Whether the kubelet was started with other CAs of API servers than those on disk. A kubelet of Kubernetes 1.35 reads
 * these CAs only at its start, so it would still accept a server with a certificate of a replaced CA.
 */
export async function hasOutdatedServersCa(files: FilePort): Promise<boolean> {
  const used = await readText(files, USED_CA_COPY);
  return used !== undefined && used !== (await readText(files, KUBELET_FILES.ca));
}

/**
 * The validity of the old serving certificate that a running kubelet still presents after a new one was written to
 * disk. undefined if the kubelet presents the certificate on disk, or does not run. The caller restarts the kubelet
 * when the old certificate is due for renewal; until then, no restart is needed. The kubelet needs the restart although
 * it reloads the file. Clients that connect by address, such as the API server, still get the old certificate, because
 * Go's crypto/tls uses the current certificate (Config.getCertificate) only if a client sends a server name.
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
