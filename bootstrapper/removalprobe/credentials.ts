import { sign } from 'node:crypto';
import { DAY_MS, type Clock } from '../../internal/clock/index.ts';
import type { RotatingPairs } from '../../internal/keyset/index.ts';
import {
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  type LeafSpec,
} from '../../internal/pki/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';

/**
 * Long enough for all probes of one endpoint. If a server's clock is further ahead, the server reports that the
 * certificate has expired, and the result is inconclusive.
 */
const LIFETIME_SECONDS = 60;
/** The value that kubeadm sets for `--service-account-issuer`. */
const ISSUER = 'https://kubernetes.default.svc.cluster.local';
/** The account that test tokens name: the default account of the namespace that every user may read. It has no permissions. */
export const ACCOUNT = { namespace: 'kube-public', name: 'default' } as const;

/** The values from which test credentials are created. */
export interface CredentialSource {
  /** Id of the removed node. */
  readonly nodeId: string;
  readonly clusterId: string;
  /** Uid of `ACCOUNT`; undefined if it could not be read. */
  readonly accountUid: string | undefined;
  readonly clock: Pick<Clock, 'nowMs'>;
}

/** A client certificate with its key. */
export interface TestCertificate extends TlsIdentity {
  /** The user that a front proxy claims to act for (`X-Remote-User`). */
  readonly asUser?: string;
}

/** The credential in a request: a client certificate or a bearer token. */
export type TestCredential = TestCertificate | { readonly token: Secret<string> };

/** The key that signs a credential, and its differences from the client certificate of a user without permissions. */
type CredentialRule = readonly [
  key: keyof RotatingPairs,
  differences?: (source: CredentialSource & Pick<LeafSpec, 'pubKeyDer' | 'commonName'>) => Partial<LeafSpec>,
];

/**
 * Credentials with which the probe tests whether the cluster still accepts a removed node. `node` and `kubelet` are
 * like the credentials that the node had. A removed control plane could forge the other credentials with its keys. The
 * subjects of these have no permissions, so they only test whether the key is trusted.
 */
export const TEST_CREDENTIALS = {
  node: [
    'cluster-ca',
    ({ nodeId }) => ({
      ...{ commonName: nodeId, organization: 'cluster:nodes', usages: ['server', 'client'] },
      names: [{ type: 'dns', value: nodeId }],
    }),
  ],
  // Kubernetes checks the uid first, which is the node id. The common name contains the node id too: a caller who could
  // choose the name could use the name of another node.
  kubelet: [
    'kubernetes-clients-ca',
    ({ nodeId }) => ({ commonName: `system:node:${nodeId}`, organization: 'system:nodes', userId: nodeId }),
  ],
  'etcd-client': ['etcd-clients-ca'],
  'etcd-peer': ['etcd-peers-ca', () => ({ usages: ['server', 'client'] })],
  'state-etcd-client': ['state-clients-ca'],
  'state-etcd-peer': ['state-peers-ca', () => ({ usages: ['server', 'client'] })],
  'kubernetes-user': ['kubernetes-clients-ca'],
  // A client certificate of the CA that signs certificates of servers.
  'kubernetes-server': ['kubernetes-ca'],
  // API servers accept only this name (kubeadm: --requestheader-allowed-names). The user for whom the front
  // proxy acts has no permissions.
  'front-proxy': ['front-proxy-ca', () => ({ commonName: 'front-proxy-client' })],
  // A token, not a certificate.
  'service-account': ['service-account'],
  // A node that was never admitted.
  member: ['cluster-ca', (source) => nodeLeaf({ ...source, addresses: [] })],
  operator: ['cluster-ca', (source) => operatorLeaf({ ...source, name: source.commonName })],
} as const satisfies Readonly<Record<string, CredentialRule>>;

/** Name of a test credential in requests and reports. */
export type TestCredentialName = keyof typeof TEST_CREDENTIALS;

/**
 * Creates a credential for one request, because it would expire before the last of a thousand endpoints. The key of a certificate is
 * new and never stored.
 * @param pairs the shared keys; undefined if they are deleted
 * @returns a text with the reason if the credential cannot be created
 */
export async function createTestCredential(
  name: TestCredentialName,
  pairs: Required<RotatingPairs> | undefined,
  source: CredentialSource,
): Promise<TestCredential | string> {
  if (pairs === undefined) return 'keys of this generation were replaced more than once and are deleted';
  const [key, differences]: CredentialRule = TEST_CREDENTIALS[name];
  const { public: caPem, private: caKeyPem } = pairs[key];
  const nowMs = (): number => source.clock.nowMs();
  if (name === 'service-account') {
    if (source.accountUid === undefined) return 'reading the uid of the service account failed';
    return { token: createToken(caKeyPem, source.accountUid, nowMs()) };
  }
  const keyPem = generateKeyPem();
  const pubKeyDer = pubKeyDerOf(keyPem);
  // A name that has no user in etcd and Kubernetes, and no operator in the cluster.
  const commonName = `removed:${source.nodeId}`;
  const certPem = await new KeyCertificateSigner({ caPem, keyPem: caKeyPem, nowMs }).issue({
    ...{ commonName, usages: ['client'], names: [] },
    ...differences?.({ ...source, pubKeyDer, commonName }),
    ...{ pubKeyDer, validDays: (LIFETIME_SECONDS * 1000) / DAY_MS },
  });
  return { certPem, keyPem, ...(name === 'front-proxy' ? { asUser: commonName } : {}) };
}

/**
 * Creates a token of `ACCOUNT` (RFC 7519, ES256), in the format of an API server. The account must exist: API servers
 * refuse tokens of other accounts even if their key is trusted.
 */
function createToken(keyPem: Secret<string>, uid: string, nowMs: number): Secret<string> {
  const { namespace, name } = ACCOUNT;
  const issued = Math.floor(nowMs / 1000);
  const claims = {
    ...{ iss: ISSUER, aud: [ISSUER], sub: `system:serviceaccount:${namespace}:${name}` },
    ...{ iat: issued, nbf: issued, exp: issued + LIFETIME_SECONDS },
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  const parts = [{ alg: 'ES256', typ: 'JWT' }, claims];
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  const key = { key: keyPem.reveal(), dsaEncoding: 'ieee-p1363' } as const;
  return new Secret(`${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`);
}
