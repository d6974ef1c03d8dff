import type { ProvisionedDisk } from '../../internal/config/index.ts';
import { parseApprovalKey } from '../../internal/statedisk/index.ts';
import { DATA_DIRECTORIES } from '../nodestate/index.ts';
import type { DiskSettings } from './disk-settings.ts';

/** A file with which root allows an empty disk although the TPM remembers another one. */
const PERMIT = '/etc/cluster/new-state-disk';

/**
 * Directories that grow while a node runs: programs of Kubernetes, logs of pods, and the audit log of the API server. The root
 * directory of an image is memory, which they would use up.
 */
const GROWING_DIRECTORIES = [
  { name: 'programs', path: '/opt/cluster', mode: 0o755, coversFiles: true },
  { name: 'cni', path: '/opt/cni/bin', mode: 0o755, coversFiles: true },
  { name: 'pod-logs', path: '/var/log/pods', mode: 0o755, coversFiles: true },
  { name: 'kubernetes-logs', path: '/var/log/kubernetes', mode: 0o700, coversFiles: true },
] as const;

/**
 * The state disk in the provisioning, with all directories that hold secrets or data of a node. The provisioning file
 * itself stays on the disk of the operating system, because it contains no secret and names the state disk.
 */
export function provisionedDisk({
  device,
  pcrs,
  integrity,
  approvalKey,
  recoveryRecipients: recipients,
  recoveryThreshold,
}: ProvisionedDisk): DiskSettings {
  return {
    ...{ device, pcrs, recipients, recoveryThreshold, isAuthenticated: integrity },
    approvalKey: approvalKey === undefined ? undefined : parseApprovalKey(approvalKey),
    name: 'cluster-state',
    mountPoint: '/run/cluster-disk/mount',
    directories: [...DATA_DIRECTORIES, ...GROWING_DIRECTORIES],
    memory: '/run/cluster-disk/memory',
    permit: PERMIT,
  };
}
