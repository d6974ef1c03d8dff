import {
  generateKeyPem,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  type LeafSpec,
  type CertificateSigner,
} from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';

/** The authorities whose keys every control plane has, as far as one of their certificates might open a door. */
export const CA_NAMES = [
  'cluster-ca',
  'etcd-clients-ca',
  'etcd-peers-ca',
  'state-clients-ca',
  'state-peers-ca',
  'kubernetes-ca',
  'kubernetes-clients-ca',
  'front-proxy-ca',
] as const;
export type CaName = (typeof CA_NAMES)[number];

/**
 * What an impostor would show. The first two are the removed node's own papers as it had them. The others are what the
 * keys of a control plane make, but in a name that nothing is granted to: they ask whether the authority is believed,
 * which is what the holder of its key needs, and could do nothing where it is. `kubernetes-server` is a client whom the
 * authority of servers has signed, `member` a node nobody knows, `service-account` a token.
 */
export const TEST_CERTIFICATES = [
  'node',
  'kubelet',
  'etcd-client',
  'etcd-peer',
  'state-etcd-client',
  'state-etcd-peer',
  'kubernetes-user',
  'kubernetes-server',
  'front-proxy',
  'member',
  'operator',
] as const;
export type TestCertificateName = (typeof TEST_CERTIFICATES)[number];
export type TestCredentialName = TestCertificateName | 'service-account';

export interface TestCertificate {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
  /** In whose name a front proxy speaks. */
  readonly asUser?: string;
}

/** A certificate, or a token that is shown in its place. */
export type TestCredential = TestCertificate | { readonly token: Secret<string> };

/** In whose name papers are made. */
export interface Removed {
  readonly nodeId: string;
  readonly clusterId: string;
}

/** Time enough for a round of trials. A door whose clock is further ahead says so, and that is no refusal. */
export const LIFE_SECONDS = 60;
const LIFE_DAYS = LIFE_SECONDS / (24 * 60 * 60);

/** Which key each takes. */
export const CA_OF: Readonly<Record<TestCertificateName, CaName>> = {
  node: 'cluster-ca',
  kubelet: 'kubernetes-clients-ca',
  'etcd-client': 'etcd-clients-ca',
  'etcd-peer': 'etcd-peers-ca',
  'state-etcd-client': 'state-clients-ca',
  'state-etcd-peer': 'state-peers-ca',
  'kubernetes-user': 'kubernetes-clients-ca',
  'kubernetes-server': 'kubernetes-ca',
  'front-proxy': 'front-proxy-ca',
  member: 'cluster-ca',
  operator: 'cluster-ca',
};

/** A paper in the name of a node that is no member, for a key that is made here and dropped after the trial. */
export async function createTestCertificate(
  name: TestCertificateName,
  removed: Removed,
  signer: CertificateSigner,
): Promise<TestCertificate> {
  const keyPem = generateKeyPem();
  const leaf = LEAVES[name](removed, pubKeyDerOf(keyPem));
  const certPem = await signer.issue({ ...leaf, validDays: LIFE_DAYS });
  return name === 'front-proxy' ? { certPem, keyPem, asUser: nobody(removed.nodeId) } : { certPem, keyPem };
}

/** What etcd and Kubernetes have no user of, and the cluster no operator. */
const nobody = (nodeId: string): string => `removed:${nodeId}`;

type Leaf = Omit<LeafSpec, 'validDays'>;

const LEAVES: Readonly<Record<TestCertificateName, (removed: Removed, pubKeyDer: Uint8Array) => Leaf>> = {
  node: ({ nodeId }, pubKeyDer) => ({
    commonName: nodeId,
    organization: 'cluster:nodes',
    pubKeyDer,
    usages: ['server', 'client'],
    names: [{ type: 'dns', value: nodeId }],
  }),
  // Kubernetes decides by the user's uid, the node's id, first; the name it would look at next is the id too, so that
  // whoever asks for a trial cannot choose the name of a node that is there.
  kubelet: ({ nodeId }, pubKeyDer) => ({
    commonName: `system:node:${nodeId}`,
    organization: 'system:nodes',
    userId: nodeId,
    pubKeyDer,
    usages: ['client'],
    names: [],
  }),
  'etcd-client': ({ nodeId }, pubKeyDer) => client(nobody(nodeId), pubKeyDer),
  'etcd-peer': ({ nodeId }, pubKeyDer) => peer(nodeId, pubKeyDer),
  'state-etcd-client': ({ nodeId }, pubKeyDer) => client(nobody(nodeId), pubKeyDer),
  'state-etcd-peer': ({ nodeId }, pubKeyDer) => peer(nodeId, pubKeyDer),
  'kubernetes-user': ({ nodeId }, pubKeyDer) => client(nobody(nodeId), pubKeyDer),
  'kubernetes-server': ({ nodeId }, pubKeyDer) => client(nobody(nodeId), pubKeyDer),
  // API servers take this name only (kubeadm's --requestheader-allowed-names); whom it speaks for has no rights.
  'front-proxy': (_removed, pubKeyDer) => client('front-proxy-client', pubKeyDer),
  // Its id is its key's, as for every node: a member nobody has admitted.
  member: ({ clusterId }, pubKeyDer) => nodeLeaf({ clusterId, pubKeyDer, addresses: [] }),
  operator: ({ clusterId, nodeId }, pubKeyDer) =>
    operatorLeaf({ clusterId, pubKeyDer, name: nobody(nodeId) }),
};

function peer(nodeId: string, pubKeyDer: Uint8Array): Leaf {
  return { ...client(nobody(nodeId), pubKeyDer), usages: ['server', 'client'] };
}

function client(commonName: string, pubKeyDer: Uint8Array): Leaf {
  return { commonName, pubKeyDer, usages: ['client'], names: [] };
}
