import { DISK_SHARES_FILE, ROTATION_FILE } from '../../../internal/keyset/index.ts';
import { PATHS } from '../settings.ts';

const KUBELET = '/var/lib/cluster/kubernetes';

/**
 * Files of the kubelet. The node creates the keys. The certificates and the CA come with the join ticket, or
 * from the new CA on the node that creates the cluster. Keys have mode 0600 and belong to root.
 */
export const KUBELET_FILES = {
  clientKey: `${KUBELET}/kubelet-client.key`,
  clientCert: `${KUBELET}/kubelet-client.crt`,
  servingKey: `${KUBELET}/kubelet-serving.key`,
  servingCert: `${KUBELET}/kubelet-serving.crt`,
  /** The CAs with which the kubelet verifies API servers, PEM: two during a key rotation. */
  ca: `${KUBELET}/kubernetes-ca.crt`,
} as const;

/**
 * CA certificates that the kubelet trusts for its clients. The file exists from the first key rotation on;
 * before that, the kubelet trusts the Kubernetes CA. The file contains no secret, so a demoted node keeps it.
 */
export const KUBELET_CLIENTS_CA = `${KUBELET}/clients-ca.crt`;

/**
 * Files of a control plane that exist from the first key rotation on. From then on, the Kubernetes CA (`ca.crt`, `ca.key`) signs only
 * server certificates. A separate CA signs client certificates.
 */
export const ROTATED_FILES = {
  /** Trusted CAs of client certificates, PEM. */
  clientsTrustBundle: `${PATHS.pki}/clients-ca.crt`,
  /** The CA that signs client certificates. */
  issuerCert: `${PATHS.pki}/clients-issuer.crt`,
  issuerKey: `${PATHS.pki}/clients-issuer.key`,
  /** Trusted CAs with which extension API servers verify API servers as their clients, PEM. */
  frontProxyTrustBundle: `${PATHS.pki}/front-proxy-believed.crt`,
  /**
   * Trusted CAs of API servers and kubelets as servers, PEM. Exists only after a rotation has replaced the CA of
   * servers.
   */
  serversTrustBundle: `${PATHS.pki}/servers-ca.crt`,
  /** The cross-certificate of the CA in `ca.crt`, which servers send. */
  serversCross: `${PATHS.pki}/servers-cross.crt`,
} as const;

/**
 * Client certificates of the controller manager and the scheduler. Their static pods mount whole directories,
 * because a container that mounts a single file keeps the old file after a replacement.
 */
export const COMPONENT_CLIENTS = {
  'controller-manager': client('controller-manager', 'system:kube-controller-manager'),
  scheduler: client('scheduler', 'system:kube-scheduler'),
} as const;

function client(name: string, user: string) {
  const directory = `/etc/kubernetes/${name}`;
  return {
    user,
    directory,
    key: `${directory}/client.key`,
    cert: `${directory}/client.crt`,
    conf: `${directory}.conf`,
  };
}

/**
 * Paths of the keys that all control planes share, by their names in `Ticket.control_plane_keys`. A node has
 * all of these keys before it starts etcd. Contents are PEM, or JSON for `encryption.json`.
 */
export const CONTROL_PLANE_KEY_FILES = {
  'etcd-clients-ca.crt': '/var/lib/cluster/consensus/kubernetes/clients/ca.crt',
  'etcd-clients-ca.key': '/var/lib/cluster/consensus/kubernetes/clients/ca.key',
  'etcd-peers-ca.crt': '/var/lib/cluster/consensus/kubernetes/peers/ca.crt',
  'etcd-peers-ca.key': '/var/lib/cluster/consensus/kubernetes/peers/ca.key',
  'state-clients-ca.crt': '/var/lib/cluster/consensus/state/clients/ca.crt',
  'state-clients-ca.key': '/var/lib/cluster/consensus/state/clients/ca.key',
  'state-peers-ca.crt': '/var/lib/cluster/consensus/state/peers/ca.crt',
  'state-peers-ca.key': '/var/lib/cluster/consensus/state/peers/ca.key',
  'kubernetes-ca.crt': `${PATHS.pki}/ca.crt`,
  'kubernetes-ca.key': `${PATHS.pki}/ca.key`,
  'front-proxy-ca.crt': `${PATHS.pki}/front-proxy-ca.crt`,
  'front-proxy-ca.key': `${PATHS.pki}/front-proxy-ca.key`,
  'service-account.key': `${PATHS.pki}/sa.key`,
  'service-account.pub': `${PATHS.pki}/sa.pub`,
  'encryption.json': PATHS.encryption,
  'cluster-ca.crt': '/var/lib/cluster/ca/ca.crt',
  'cluster-ca.key': '/var/lib/cluster/ca/ca.key',
} as const;

/**
 * Shared keys that not every cluster has: the key set with both generations and the phase of the rotation (internal/keyset), from the
 * first key rotation on; the secret for disk shares, in clusters that an earlier release has not created.
 */
export const OPTIONAL_KEY_FILES = {
  [ROTATION_FILE]: `/var/lib/cluster/keys/${ROTATION_FILE}`,
  [DISK_SHARES_FILE]: `/var/lib/cluster/keys/${DISK_SHARES_FILE}`,
} as const;
