import type { FilePort } from '../../../internal/file/index.ts';
import { certificateTimesOf, type CertificateTimes } from '../../../internal/pki/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { KUBELET_UNIT } from '../node/units.ts';

/** A copy of the one that the kubelet was started with. */
export const SERVED_CERT_COPY = `${KUBELET_FILES.servingCert}.shown`;
const MAX_BYTES = 64 * 1024;
const LONG_DUE: CertificateTimes = { issuedMs: 0, notAfterMs: 0 };

export interface ServingCertificatePorts {
  readonly files: FilePort;
  readonly units: Pick<UnitPort, 'status' | 'restart'>;
}

/** The kubelet is about to be started, or has just been, with the serving certificate that is on disk: a copy says which. */
export async function recordServingCertificate({
  files,
}: Pick<ServingCertificatePorts, 'files'>): Promise<void> {
  const bytes = await files.read(KUBELET_FILES.servingCert, MAX_BYTES);
  if (bytes !== undefined) await files.writeAtomic(SERVED_CERT_COPY, bytes);
}

/**
 * The life of the serving certificate that a running kubelet shows, when there is another one on disk. It follows the file,
 * but not for those who call it by its address, as the API server does: Go's crypto/tls asks for a current certificate only
 * where a name is called (Config.getCertificate), and otherwise shows the one that was read at the start. A new one that
 * came with another role is no hurry: the kubelet is left alone until the one that it shows is due.
 */
export async function servedCertificateTimes(
  { files, units }: ServingCertificatePorts,
  signal: AbortSignal,
): Promise<CertificateTimes | undefined> {
  const placed = await files.read(KUBELET_FILES.servingCert, MAX_BYTES);
  if (placed === undefined) return undefined;
  const shown = await files.read(SERVED_CERT_COPY, MAX_BYTES);
  if (shown !== undefined && Buffer.from(shown).equals(placed)) return undefined;
  if ((await units.status(KUBELET_UNIT, signal)).active !== 'active') return undefined;
  try {
    return shown === undefined ? LONG_DUE : certificateTimesOf(Buffer.from(shown).toString('utf8'));
  } catch {
    return LONG_DUE; // garbage says nothing of what is shown: a restart makes it known again
  }
}

/** Pods go on meanwhile. A crash before the mark only restarts it once more. */
export async function restartForServingCertificate(
  ports: ServingCertificatePorts,
  signal: AbortSignal,
): Promise<void> {
  await ports.units.restart(KUBELET_UNIT, signal);
  await recordServingCertificate(ports);
}
