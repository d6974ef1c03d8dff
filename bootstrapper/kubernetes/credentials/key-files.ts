import { PATHS } from '../settings.ts';

const KUBELET = '/var/lib/cluster/kubernetes';

/**
 * Files of the kubelet. Keys are created on the node; certificates and CA come with the join ticket, or on the node that creates
 * the cluster from its new CA. Keys have mode 0600 and belong to root.
 */
export const KUBELET_FILES = {
  clientKey: `${KUBELET}/kubelet-client.key`,
  clientCert: `${KUBELET}/kubelet-client.crt`,
  servingKey: `${KUBELET}/kubelet-serving.key`,
  servingCert: `${KUBELET}/kubelet-serving.crt`,
  /** The Kubernetes CA, which signs the certificates of API servers and kubelets. */
  ca: `${KUBELET}/kubernetes-ca.crt`,
} as const;

/**
 * CA certificates that the kubelet trusts for its clients. The file exists from the first key rotation on; before, the kubelet
 * trusts the Kubernetes CA. It has no secret, so a demoted node keeps it.
 */
export const KUBELET_CLIENTS_CA = `${KUBELET}/clients-ca.crt`;

/**
 * Files of a control plane that exist from the first key rotation on. From then on the Kubernetes CA signs only server
 * certificates, because pods, kubeconfigs and kubelets pin it. Client certificates have a CA of their own.
 */
export const ROTATED_FILES = {
  /** Trusted CAs of client certificates, PEM. */
  clientsTrustBundle: `${PATHS.pki}/clients-ca.crt`,
  /** The CA that signs client certificates. */
  issuerCert: `${PATHS.pki}/clients-issuer.crt`,
  issuerKey: `${PATHS.pki}/clients-issuer.key`,
  /** Trusted CAs of API servers as clients of extension API servers, PEM. */
  frontProxyTrustBundle: `${PATHS.pki}/front-proxy-believed.crt`,
} as const;

/**
 * Client certificates of controller manager and scheduler. Their static pods mount whole directories: a container that mounts a
 * single file keeps the old file when it is replaced.
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
 * Paths of the keys that all control planes share, by their names in `Ticket.control_plane_keys`. A node has all of them before
 * it starts etcd. Contents are PEM, and JSON for `encryption.json`.
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

/** Exists from the first key rotation on: the key set with both generations and the phase (internal/keyset). */
export const OPTIONAL_KEY_FILES = { 'rotation.json': '/var/lib/cluster/keys/rotation.json' } as const;
