import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import type { Marks } from './marks.ts';
import { KUBELET_FILES } from './material.ts';
import { KUBELET_UNIT } from './units.ts';

const MARK = 'kubelet-serving';
const MAX_BYTES = 64 * 1024;

export interface KubeletServingPorts {
  readonly files: FilePort;
  readonly units: Pick<UnitPort, 'status' | 'restart'>;
  readonly marks: Marks;
}

/** The kubelet has just been started with the serving certificate that is on disk. */
export async function markKubeletServing({
  files,
  marks,
}: Omit<KubeletServingPorts, 'units'>): Promise<void> {
  const bytes = await files.read(KUBELET_FILES.servingCert, MAX_BYTES);
  if (bytes !== undefined) await marks.set(MARK, digestible(bytes));
}

/**
 * Whether the kubelet runs and was started with another serving certificate. It follows the file, but not for those who
 * call it by its address, as the API server does: Go's crypto/tls asks for a current certificate only where a name is
 * called (Config.getCertificate), and otherwise shows the one that was read at the start.
 */
export async function isKubeletServingStale(
  ports: KubeletServingPorts,
  signal: AbortSignal,
): Promise<boolean> {
  const { files, units, marks } = ports;
  const bytes = await files.read(KUBELET_FILES.servingCert, MAX_BYTES);
  if (bytes === undefined || (await marks.isSet(MARK, digestible(bytes)))) return false;
  return (await units.status(KUBELET_UNIT, signal)).active === 'active';
}

/** Pods go on meanwhile. A crash before the mark only restarts it once more. */
export async function restartKubeletServing(ports: KubeletServingPorts, signal: AbortSignal): Promise<void> {
  await ports.units.restart(KUBELET_UNIT, signal);
  await markKubeletServing(ports);
}

function digestible(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
