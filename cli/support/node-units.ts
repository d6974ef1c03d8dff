/** The systemd units whose logs a support bundle has. */
export const NODE_UNITS = [
  'bootstrapper',
  'cluster-containerd',
  'cluster-apilb',
  'cluster-relay',
  'cluster-exporter',
  'kubelet',
] as const;
/** Units of control planes besides `NODE_UNITS`. */
export const CONTROL_PLANE_UNITS = [
  'cluster-etcd-state',
  'cluster-etcd-kubernetes',
  'cluster-joinservice',
  'cluster-signer',
] as const;

/** The directory of a node in a support bundle. */
export function nodeDirectory(name: string, otherwise: string): string {
  return `nodes/${/^[a-z0-9][a-z0-9-]{0,62}$/.test(name) ? name : otherwise}`;
}
