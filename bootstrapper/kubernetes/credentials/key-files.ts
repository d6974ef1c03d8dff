import { PATHS } from '../settings.ts';

const KUBELET = '/var/lib/cluster/kubernetes';

/**
 * What the kubelet proves itself with. The keys are made on the node; certificates and the CA come with the ticket, and
 * on the node that creates the cluster from the CA it has just made. Keys 0600, root only.
 */
export const KUBELET_FILES = {
  clientKey: `${KUBELET}/kubelet-client.key`,
  clientCert: `${KUBELET}/kubelet-client.crt`,
  servingKey: `${KUBELET}/kubelet-serving.key`,
  servingCert: `${KUBELET}/kubelet-serving.crt`,
  /** The Kubernetes CA: the API servers' and the kubelets' certificates are its. */
  ca: `${KUBELET}/kubernetes-ca.crt`,
} as const;

/**
 * Whom the kubelet believes of its clients, once the keys that control planes share were replaced; until then there is no
 * such file and it is the Kubernetes CA. Public: it stays with a node that is no control plane any more.
 */
export const KUBELET_CLIENTS_CA = `${KUBELET}/clients-ca.crt`;

/**
 * What a control plane has beside kubeadm's files once the keys were replaced. The Kubernetes CA then signs for servers
 * only, for good: pods, kubeconfigs and kubelets pin it. Whose clients are believed is another authority's word.
 */
export const ROTATED_FILES = {
  /** Believed of clients, one after the other. */
  clientsTrustBundle: `${PATHS.pki}/clients-ca.crt`,
  /** What signs for clients. */
  issuerCert: `${PATHS.pki}/clients-issuer.crt`,
  issuerKey: `${PATHS.pki}/clients-issuer.key`,
  /** Believed of the API servers as clients of extensions, one after the other. */
  frontProxyTrustBundle: `${PATHS.pki}/front-proxy-believed.crt`,
} as const;

/**
 * What the controller manager and the scheduler prove themselves with. Directories of their own, which their static pods
 * see whole: a file that is replaced would stay the old one in a container that was given the file alone.
 */
export const COMPONENT_CLIENTS = {
  'controller-manager': client('controller-manager', 'system:kube-controller-manager'),
  scheduler: client('scheduler', 'system:kube-scheduler'),
} as const;

function client(name: string, user: string) {
  const folder = `/etc/kubernetes/${name}`;
  return { user, folder, key: `${folder}/client.key`, cert: `${folder}/client.crt`, conf: `${folder}.conf` };
}

/**
 * The keys that all control-plane nodes share, by the name they have in `Ticket.control_plane_keys`, and where each lies
 * on a node. Whoever joins with the role, or gets it later, has all of them in place before etcd is started. Values are
 * text: PEM, and JSON for `encryption.json`.
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

/** What is there beside them once they were replaced: both generations, and how far the way between them is. */
export const OPTIONAL_KEY_FILES = { 'rotation.json': '/var/lib/cluster/keys/rotation.json' } as const;
