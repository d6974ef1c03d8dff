import { sign } from 'node:crypto';
import { DAY_MS, type Clock } from '../../internal/clock/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { activePairs, type KeySet, type RotatingKey } from '../../internal/keyset/index.ts';
import {
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  type CertificateSigner,
  type LeafSpec,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { KeyPairFiles } from '../consensus/index.ts';
import { readFirstClusterCa, readFirstServersCa, readInitialKeys } from '../controlplane/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import { RemovalProbeError } from './errors.ts';

/**
 * Long enough for all probes of one endpoint. If a server's clock is further ahead, its answer says that the
 * certificate expired, which proves nothing.
 */
const LIFETIME_SECONDS = 60;
/** The value that kubeadm sets for `--service-account-issuer`. */
const ISSUER = 'https://kubernetes.default.svc.cluster.local';
/** The default account of the namespace that every user may read. The account has no permissions. */
const ACCOUNT = { namespace: 'kube-public', name: 'default' } as const;
const ACCOUNT_KEY = `/registry/serviceaccounts/${ACCOUNT.namespace}/${ACCOUNT.name}`;
const UID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** Name of a key that all control planes share. Rotations of earlier versions keep the last two. */
export type SharedKeyName = RotatingKey | 'cluster-ca' | 'kubernetes-ca';

/**
 * Reads the shared keys from the disk of this control plane. Those that a rotation of an earlier version kept are the
 * same in both generations. Before the first rotation, all are, and `kubernetes-clients-ca` is `kubernetes-ca`.
 * @throws KeyRotationError `keyrotation-keys-unavailable`
 */
export async function readSharedKeys(files: FilePort): Promise<KeySet<SharedKeyName>> {
  const first = {
    'cluster-ca': await readFirstClusterCa(files),
    'kubernetes-ca': await readFirstServersCa(files),
  };
  const set = await new KeyStore(files, KEY_PATHS).loadSet();
  if (set !== undefined)
    return { ...set, previous: { ...first, ...set.previous }, next: { ...first, ...set.next } };
  const pairs = { ...first, ...(await readInitialKeys(files)) };
  return { generation: 1, phase: 'done', previous: pairs, next: pairs };
}

/**
 * The uid of the account that test tokens name; undefined if it cannot be read. It is the first one in the stored object, because its
 * metadata starts with name, namespace and uid (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto).
 */
export async function readAccountUid(
  etcd: Pick<KeySpace, 'get'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const stored = await etcd.get(ACCOUNT_KEY, { signal });
    return UID.exec(Buffer.from(stored?.value ?? []).toString('latin1'))?.[0];
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    return undefined;
  }
}

/** Reads a client certificate of this control plane. @throws RemovalProbeError `removalprobe-not-control-plane` */
export async function readCertificate(
  files: FilePort,
  { certFile, keyFile }: KeyPairFiles,
): Promise<TestCertificate> {
  const [certPem, keyPem] = [await readText(files, certFile), await readText(files, keyFile)];
  if (certPem !== undefined && keyPem !== undefined) return { certPem, keyPem: new Secret(keyPem) };
  throw new RemovalProbeError('removalprobe-not-control-plane', `${certFile} or its key not found`);
}

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

/** The CA that signs a test certificate, and what differs from a client certificate for `withoutRights()`. */
type TestCertificateSpec = readonly [
  ca: SharedKeyName,
  differences?: (removed: RemovedNode & { readonly pubKeyDer: Uint8Array }) => Partial<LeafSpec>,
];

/**
 * Certificates with which the probe tests whether the cluster still accepts a removed node. `node` and
 * `kubelet` are like those that the node had. The others could be forged with the CA keys of a removed control
 * plane. Their subjects have no permissions, so they only test whether the CA is trusted.
 */
export const TEST_CERTIFICATES = {
  node: [
    'cluster-ca',
    ({ nodeId }) => ({
      ...{ commonName: nodeId, organization: 'cluster:nodes', usages: ['server', 'client'] },
      names: [{ type: 'dns', value: nodeId }],
    }),
  ],
  // Kubernetes checks the uid first, which is the node id. The name is the node id too: if the caller chose
  // the name, it could name another node.
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
  // A node that was never admitted.
  member: ['cluster-ca', ({ clusterId, pubKeyDer }) => nodeLeaf({ clusterId, pubKeyDer, addresses: [] })],
  operator: ['cluster-ca', (removed) => operatorLeaf({ ...removed, name: withoutRights(removed) })],
} as const satisfies Readonly<Record<string, TestCertificateSpec>>;

/** Name of a test certificate in requests and reports. */
export type TestCertificateName = keyof typeof TEST_CERTIFICATES;
/** Name of a test credential in requests and reports. */
export type TestCredentialName = TestCertificateName | 'service-account';

/** What test credentials are created from. */
export interface CredentialSource extends RemovedNode {
  readonly keys: KeySet<SharedKeyName>;
  /** Uid of the account that tokens name; undefined if it could not be read. */
  readonly accountUid: string | undefined;
  readonly clock: Pick<Clock, 'nowMs'>;
}

/**
 * Creates a credential for one request, because it would expire before the last of a thousand endpoints.
 * @param generation of the key that creates it; 0: the current key
 * @returns a text with the reason if the credential cannot be created
 */
export async function createTestCredential(
  name: TestCredentialName,
  generation: number,
  { keys, accountUid: uid, clock, ...removed }: CredentialSource,
): Promise<TestCredential | string> {
  const pairs = generation === 0 ? activePairs(keys) : ofGeneration(generation, keys, keys);
  if (pairs === undefined) return 'keys of this generation were replaced more than once and are deleted';
  const nowMs = (): number => clock.nowMs();
  if (name !== 'service-account') {
    const { public: caPem, private: keyPem } = pairs[TEST_CERTIFICATES[name][0]];
    return createTestCertificate(name, removed, new KeyCertificateSigner({ caPem, keyPem, nowMs }));
  }
  if (uid === undefined) return 'reading the uid of the service account failed';
  return { token: createServiceAccountToken(pairs[name].private, { uid, nowMs: nowMs() }) };
}

/** The key that a generation has; undefined if the keys of that generation are deleted. */
export function ofGeneration<T>(
  wanted: number,
  { generation }: Pick<KeySet, 'generation'>,
  { previous, next }: { readonly previous: T; readonly next: T },
): T | undefined {
  if (wanted === generation) return next;
  return wanted === generation - 1 ? previous : undefined;
}

/** Creates a key and signs a certificate for it. The key is never stored; the certificate is valid for 60 s. */
export async function createTestCertificate(
  name: TestCertificateName,
  removed: RemovedNode,
  signer: CertificateSigner,
): Promise<TestCertificate> {
  const keyPem = generateKeyPem();
  const pubKeyDer = pubKeyDerOf(keyPem);
  const [, differences]: TestCertificateSpec = TEST_CERTIFICATES[name];
  const certPem = await signer.issue({
    ...{ commonName: withoutRights(removed), usages: ['client'], names: [] },
    ...differences?.({ ...removed, pubKeyDer }),
    ...{ pubKeyDer, validDays: (LIFETIME_SECONDS * 1000) / DAY_MS },
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
  const parts = [{ alg: 'ES256', typ: 'JWT' }, claims];
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  const key = { key: keyPem.reveal(), dsaEncoding: 'ieee-p1363' } as const;
  return new Secret(`${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`);
}

/** A name that has no user in etcd and Kubernetes, and no operator in the cluster. */
function withoutRights({ nodeId }: RemovedNode): string {
  return `removed:${nodeId}`;
}
