import { isSealedShare } from '../../internal/statedisk/index.ts';
import type { ProbeShare } from './cluster-share.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { openDisk, requireReady } from './disk-state.ts';

/**
 * Asks whether a signer would still give the share of an open disk: one control plane in its record, or any that a closed machine would ask.
 * Changes nothing, and takes no share and none from the TPM, so it cannot tell whether the share is the right one. Does nothing for a disk
 * whose machine keeps its share.
 * @throws DiskError of a missing share
 */
export async function probeMovedShare(
  ports: DiskPorts,
  settings: DiskSettings,
  options: {
    readonly of: { readonly nodeId: string } | 'any';
    readonly probe: ProbeShare;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { of, probe, signal } = options;
  const { state } = await openDisk(ports, settings, signal);
  const { uuid, clusterShare: source } = requireReady(state, 'disk-share-not-moved').record.content;
  if (isSealedShare(source)) return;
  if (of === 'any') return probe({ uuid, source, among: 'all' }, signal);
  const controlPlanes = source.controlPlanes.filter(({ nodeId }) => nodeId === of.nodeId);
  const one = { ...source, controlPlanes, endpoints: [], proven: [] };
  await probe({ uuid, source: one, among: 'source' }, signal);
}
