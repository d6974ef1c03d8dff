import { sign } from 'node:crypto';
import {
  generateKeyPem,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  type CertificateSigner,
  type LeafSpec,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CaName } from './signing-keys.ts';

/**
 * Long enough for all probes of one endpoint. If a server's clock is further ahead, its answer says that the
 * certificate expired, which proves nothing.
 */
const LIFETIME_SECONDS = 60;
/** The value that kubeadm sets for `--service-account-issuer`. */
const ISSUER = 'https://kubernetes.default.svc.cluster.local';
/** The default account of the namespace that every user may read. The account has no permissions. */
const ACCOUNT = { namespace: 'kube-public', name: 'default' } as const;
/** API path of the account that test tokens name. */
export const ACCOUNT_PATH = `/api/v1/namespaces/${ACCOUNT.namespace}/serviceaccounts/${ACCOUNT.name}`;

/** The removed node that test credentials name. */
export interface RemovedNode {
  readonly nodeId: string;
  readonly clusterId: string;
}

/** A client certificate with its key, PEM. */
export interface TestCertificate {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
  /** The user that a front proxy claims to act for (`X-Remote-User`). */
  readonly asUser?: string;
}

/** The credential in a request: a client certificate or a bearer token. */
export type TestCredential = TestCertificate | { readonly token: Secret<string> };

/** The fields that differ from a client certificate for `withoutRights` (see `createTestCertificate()`). */
type Differences = Partial<LeafSpec>;

const PEER: Differences = { usages: ['server', 'client'] };

/**
 * Certificates with which the probe tests whether the cluster still accepts a removed node. `node` and
 * `kubelet` are like those that the node had. The others could be forged with the CA keys of a removed control
 * plane. Their subjects have no permissions, so they only test whether the CA is trusted. `kubernetes-server` is a client certificate that the CA of servers signed; `member` names a
 * node that was never admitted.
 */
export const TEST_CERTIFICATES = {
  node: [
    'cluster-ca',
    ({ nodeId }) => ({
      ...{ ...PEER, commonName: nodeId, organization: 'cluster:nodes' },
      names: [{ type: 'dns', value: nodeId }],
    }),
  ],
  // Kubernetes checks the uid first, which is the node id. The name is the node id too: if the caller chose
  // the name, it could name another node.
  kubelet: [
    'kubernetes-clients-ca',
    ({ nodeId }) => ({
      ...{ commonName: `system:node:${nodeId}`, organization: 'system:nodes', userId: nodeId },
    }),
  ],
  'etcd-client': ['etcd-clients-ca', () => ({})],
  'etcd-peer': ['etcd-peers-ca', () => PEER],
  'state-etcd-client': ['state-clients-ca', () => ({})],
  'state-etcd-peer': ['state-peers-ca', () => PEER],
  'kubernetes-user': ['kubernetes-clients-ca', () => ({})],
  'kubernetes-server': ['kubernetes-ca', () => ({})],
  // API servers accept only this name (kubeadm: --requestheader-allowed-names). The user for whom the front
  // proxy acts has no permissions.
  'front-proxy': ['front-proxy-ca', () => ({ commonName: 'front-proxy-client' })],
  member: ['cluster-ca', ({ clusterId, pubKeyDer }) => nodeLeaf({ clusterId, pubKeyDer, addresses: [] })],
  operator: ['cluster-ca', (of) => operatorLeaf({ ...of, name: withoutRights(of) })],
} as const satisfies Readonly<
  Record<
    string,
    readonly [ca: CaName, of: (removed: RemovedNode & { readonly pubKeyDer: Uint8Array }) => Differences]
  >
>;

/** Name of a test certificate in requests and reports. */
export type TestCertificateName = keyof typeof TEST_CERTIFICATES;
/** Name of a test credential in requests and reports. */
export type TestCredentialName = TestCertificateName | 'service-account';

/**
 * Creates a key and signs a certificate for it. The key is never stored; the certificate is valid for 60 s.
 */
export async function createTestCertificate(
  name: TestCertificateName,
  removed: RemovedNode,
  signer: CertificateSigner,
): Promise<TestCertificate> {
  const keyPem = generateKeyPem();
  const pubKeyDer = pubKeyDerOf(keyPem);
  const [, differencesOf] = TEST_CERTIFICATES[name];
  const certPem = await signer.issue({
    ...{ commonName: withoutRights(removed), usages: ['client'], names: [] },
    ...differencesOf({ ...removed, pubKeyDer }),
    ...{ pubKeyDer, validDays: LIFETIME_SECONDS / (24 * 60 * 60) },
  });
  return { certPem, keyPem, ...(name === 'front-proxy' ? { asUser: withoutRights(removed) } : {}) };
}

/**
 * Creates a token of the account without permissions (RFC 7519, ES256), in the format of an API server. The
 * account must exist: API servers refuse tokens of other accounts even if their key is trusted.
 */
export function createServiceAccountToken(
  keyPem: Secret<string>,
  { uid, nowMs }: { readonly uid: string; readonly nowMs: number },
): Secret<string> {
  const { namespace, name } = ACCOUNT;
  const issued = Math.floor(nowMs / 1000);
  const claims = {
    ...{ iss: ISSUER, aud: [ISSUER], sub: `system:serviceaccount:${namespace}:${name}` },
    ...{ iat: issued, nbf: issued, exp: issued + LIFETIME_SECONDS },
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  const signed = `${encodePart({ alg: 'ES256', typ: 'JWT' })}.${encodePart(claims)}`;
  const key = { key: keyPem.reveal(), dsaEncoding: 'ieee-p1363' } as const;
  return new Secret(`${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`);
}

/** A name that has no user in etcd and Kubernetes, and no operator in the cluster. */
function withoutRights({ nodeId }: RemovedNode): string {
  return `removed:${nodeId}`;
}

function encodePart(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
