import { generateKeyPem, pubKeyOf, type LeafSpec, type Signer } from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';

/** The authorities whose keys every control plane has, as far as one of their certificates opens a door. */
export const AUTHORITIES = ['cluster-ca', 'etcd-clients-ca', 'etcd-peers-ca', 'kubernetes-ca'] as const;
export type Authority = (typeof AUTHORITIES)[number];

/**
 * What an impostor would show. The first two are the removed node's own papers as it had them. The others are what the
 * keys of a control plane make, but in a name that nothing is granted to: they ask whether the authority is believed,
 * which is what the holder of its key needs, and could do nothing where it is.
 */
export const PAPERS = ['node', 'kubelet', 'etcd-client', 'etcd-peer', 'kubernetes-user'] as const;
export type PaperName = (typeof PAPERS)[number];

export interface Paper {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
}

/** Time enough for a round of trials. A door whose clock is further ahead says so, and that is no refusal. */
const LIFE_DAYS = 60 / (24 * 60 * 60);

/** Which key each paper takes. */
export const AUTHORITY_OF: Readonly<Record<PaperName, Authority>> = {
  node: 'cluster-ca',
  kubelet: 'kubernetes-ca',
  'etcd-client': 'etcd-clients-ca',
  'etcd-peer': 'etcd-peers-ca',
  'kubernetes-user': 'kubernetes-ca',
};

/** A paper in the name of a node that is no member, for a key that is made here and dropped after the trial. */
export async function makePaper(name: PaperName, nodeId: string, signer: Signer): Promise<Paper> {
  const keyPem = generateKeyPem();
  const leaf = { ...LEAVES[name](nodeId), pubKeyDer: pubKeyOf(keyPem), validDays: LIFE_DAYS };
  return { certPem: await signer.issue(leaf), keyPem };
}

/** What etcd and Kubernetes have no user of. */
const nobody = (nodeId: string): string => `removed:${nodeId}`;

const LEAVES: Readonly<Record<PaperName, (nodeId: string) => Omit<LeafSpec, 'pubKeyDer' | 'validDays'>>> = {
  node: (nodeId) => ({
    commonName: nodeId,
    organization: 'cluster:nodes',
    usages: ['server', 'client'],
    names: [{ type: 'dns', value: nodeId }],
  }),
  // Kubernetes decides by the user's uid, the node's id, first; the name it would look at next is the id too, so that
  // whoever asks for a trial can't choose the name of a node that is there.
  kubelet: (nodeId) => ({
    commonName: `system:node:${nodeId}`,
    organization: 'system:nodes',
    userId: nodeId,
    usages: ['client'],
    names: [],
  }),
  'etcd-client': (nodeId) => ({ commonName: nobody(nodeId), usages: ['client'], names: [] }),
  'etcd-peer': (nodeId) => ({ commonName: nobody(nodeId), usages: ['server', 'client'], names: [] }),
  'kubernetes-user': (nodeId) => ({ commonName: nobody(nodeId), usages: ['client'], names: [] }),
};
