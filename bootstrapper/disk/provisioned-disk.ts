import type { ProvisionedDisk } from '../../internal/config/index.ts';
import type { DiskSettings } from './disk-settings.ts';

/** A file with which root allows an empty disk although the TPM remembers another one. */
const PERMIT = '/etc/cluster/new-state-disk';

/**
 * The state disk of a provisioning file, with all directories that hold secrets or data of a node. The provisioning itself stays
 * on the disk of the operating system: it has no secret, and it says where the state disk is.
 */
export function provisionedDisk({
  device,
  pcrs,
  integrity,
  recoveryRecipients: recipients,
}: ProvisionedDisk): DiskSettings {
  return {
    ...{ device, pcrs, recipients, isAuthenticated: integrity },
    name: 'cluster-state',
    mountPoint: '/run/cluster-disk/mount',
    directories: [
      { name: 'cluster', path: '/var/lib/cluster', mode: 0o700 },
      { name: 'signer', path: '/var/lib/cluster-signer', mode: 0o700 },
      { name: 'kubernetes', path: '/etc/kubernetes', mode: 0o755 },
      { name: 'kubelet', path: '/var/lib/kubelet', mode: 0o750 },
      { name: 'containerd', path: '/var/lib/containerd', mode: 0o711 },
    ],
    memory: '/run/cluster-disk/memory',
    permit: PERMIT,
  };
}
