import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { SystemClock } from '../../../internal/clock/index.ts';
import { DiskFiles, type FilePort } from '../../../internal/file/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import {
  LATER_KEYS,
  ROTATING_KEYS,
  type RotatingPair,
  type RotatingPairs,
} from '../../../internal/keyset/index.ts';
import { KubeClient, reviewKubelet } from '../../../internal/kube/index.ts';
import type { TlsIdentity } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  createMemoryLogger,
  TestApiServer,
  TestEtcd,
  untilServing,
} from '../../../internal/testing/index.ts';
import {
  createTestCredential,
  ENDPOINT_RULES,
  judgeAnswer,
  sendCredential,
  type TestCredentialName,
} from '../../removalprobe/index.ts';
import { ProbeResult_Outcome as Outcome } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import {
  KUBERNETES_GROUPS,
  RECORDED_PERSONS_PATH,
  renderRecordedPersons,
  type RecordedPerson,
} from '../../../internal/role/index.ts';
import { writeAuthorizationConfig, type AuthorizationOptions } from './authorization-config.ts';
import { followRecordedPersons } from './recorded-persons.ts';
import { PATHS } from '../settings.ts';

const nowMs = (): number => Date.now();
const POLL_MS = 200;

interface Review {
  readonly spec: { readonly user: string; readonly uid?: string; readonly groups?: readonly string[] };
}

let directory: string;
let etcd: TestEtcd;
let apiServer: TestApiServer;
let kubernetesCa: Authority;
let frontProxyCa: Authority;
let serviceAccountKey: Secret<string>;
let membership: Server;
let webhook: Omit<AuthorizationOptions, 'persons'>;
/** The list that the stand-in for the webhook serves; undefined while it has none. */
let recorded: readonly RecordedPerson[] | undefined;
const asked: Review['spec'][] = [];
const removed = new Set<string>();

/** Starts a real API server of the bundle and a real etcd, with the configuration of a control plane. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-authorization-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  kubernetesCa = await authority('kubernetes');
  frontProxyCa = await authority('front-proxy-ca');
  const clusterCa = await authority('cluster');
  const { tls, nodeId } = await nodeIdentity(clusterCa);
  apiServer = await TestApiServer.create(directory, etcd, member.endpoint);
  const { caPem: callersCaPem } = await etcd.clientFiles('apiserver');
  serviceAccountKey = new Secret(
    createPrivateKey(generateKeyPem().reveal()).export({ type: 'sec1', format: 'pem' }).toString(),
  );
  const files = {
    'ca.crt': kubernetesCa.caPem,
    'front-proxy-ca.crt': frontProxyCa.caPem,
    'sa.key': serviceAccountKey.reveal(),
  };
  for (const [name, text] of Object.entries(files))
    await writeFile(join(directory, name), text, { mode: 0o600 });
  membership = await serveMembership(tls, callersCaPem);
  webhook = {
    nodeId,
    clusterCaPem: clusterCa.caPem,
    port: (membership.address() as AddressInfo).port,
    client: { certFile: join(directory, 'etcd.crt'), keyFile: join(directory, 'etcd.key') },
  };
  await writeAuthorizationConfig(relocated(), { ...webhook, persons: [] });
  await apiServer.start(flags());
}, 150_000);

afterAll(async () => {
  await apiServer[Symbol.asyncDispose]();
  membership.close();
  membership.closeAllConnections();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

function flags(): string[] {
  const at = (name: string): string => join(directory, name);
  return [
    `--client-ca-file=${at('ca.crt')}`,
    `--authorization-config=${at('config.json')}`,
    // The same flags that kubeadm sets.
    `--requestheader-client-ca-file=${at('front-proxy-ca.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${at('sa.key')}`,
    `--service-account-signing-key-file=${at('sa.key')}`,
  ];
}

/** A CA, and its certificate and key. */
type Authority = Awaited<ReturnType<typeof authority>>;

async function authority(commonName: string) {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName, keyPem, nowMs: nowMs() });
  const pair: RotatingPair = { public: caPem, private: keyPem };
  return Object.assign(new KeyCertificateSigner({ caPem, keyPem, nowMs }), { pair });
}

async function nodeIdentity(
  signer: KeyCertificateSigner,
): Promise<{ readonly tls: TlsIdentity; readonly nodeId: string }> {
  const keyPem = generateKeyPem();
  const leaf = nodeLeaf({ clusterId: 'c0ffee', pubKeyDer: pubKeyDerOf(keyPem), addresses: ['192.0.2.1'] });
  return { tls: { keyPem, certPem: await signer.issue(leaf) }, nodeId: leaf.commonName };
}

/** Redirects the control plane's paths in /etc to the directory of this test. */
function relocated(): FilePort {
  const etc = dirname(PATHS.authorization);
  const move = (text: string): string => text.replaceAll(etc, directory);
  const files = new DiskFiles();
  return Object.assign(Object.create(files) as DiskFiles, {
    makeDirectory: async () => undefined,
    read: (path: string, maxBytes: number) => files.read(move(path), maxBytes),
    writeAtomic: (path: string, text: string) => files.writeAtomic(move(path), move(text)),
  });
}

/**
 * A stand-in for the join service's membership webhook: only the API server may call it, and it never answers
 * "allowed".
 */
async function serveMembership(tls: TlsIdentity, callersCaPem: string): Promise<Server> {
  const server = createServer(
    {
      cert: tls.certPem,
      key: tls.keyPem.reveal(),
      ca: callersCaPem,
      requestCert: true,
      minVersion: 'TLSv1.3',
    },
    (incoming, response) => {
      if (incoming.url === RECORDED_PERSONS_PATH) {
        const body = recorded === undefined ? '' : renderRecordedPersons(recorded);
        response.writeHead(recorded === undefined ? 500 : 200).end(body);
        return;
      }
      const parts: Buffer[] = [];
      incoming.on('data', (part: Buffer) => parts.push(part));
      incoming.on('end', () => {
        const { spec } = JSON.parse(Buffer.concat(parts).toString('utf8')) as Review;
        asked.push(spec);
        const status = { allowed: false, denied: removed.has(spec.uid ?? ''), reason: 'test' };
        const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', status };
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(review));
      });
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function clientOf(over: {
  commonName: string;
  organization: string;
  userId?: string;
}): Promise<TlsIdentity> {
  const keyPem = generateKeyPem();
  const leaf = {
    ...over,
    pubKeyDer: pubKeyDerOf(keyPem),
    usages: ['client'],
    names: [],
    validDays: 1,
  } as const;
  return { keyPem, certPem: await kubernetesCa.issue(leaf) };
}

const kubelet = (name: string, userId: string): Promise<TlsIdentity> =>
  clientOf({ commonName: `system:node:${name}`, organization: 'system:nodes', userId });

async function get(path: string, identity?: TlsIdentity): Promise<number> {
  return (await apiServer.ask(path, { identity })).status;
}

test('an API server calls the membership webhook only for kubelets, operators and viewers, and sends their ids', async () => {
  const one = await kubelet('w1', 'node-1');
  // The node authorizer of Kubernetes lets a kubelet read its own Node object. The answer is 404 because the
  // object does not exist yet.
  expect(await get('/api/v1/nodes/w1', one)).toBe(404);
  // The node authorizer still denies other requests: being a member grants no permissions.
  expect(await get('/api/v1/namespaces/kube-system/secrets', one)).toBe(403);
  expect(asked.at(-1)).toMatchObject({ user: 'system:node:w1', uid: 'node-1' });
  expect(asked.at(-1)?.groups).toContain('system:nodes');
  for (const role of ['owner', 'operator', 'viewer'] as const) {
    const userId = `sha256:${'a'.repeat(64)}`;
    const person = await clientOf({ commonName: 'ann', organization: KUBERNETES_GROUPS[role], userId });
    // No object grants the group anything in this test.
    expect(await get('/api/v1/nodes', person)).toBe(403);
    expect(asked.at(-1)).toMatchObject({ user: 'ann', uid: userId });
    expect(asked.at(-1)?.groups).toContain(KUBERNETES_GROUPS[role]);
  }
  const before = asked.length;
  // The administrator of a control plane has no key of an owner.
  const local = await clientOf({ commonName: 'kubernetes-admin', organization: KUBERNETES_GROUPS.owner });
  expect(await get('/api/v1/namespaces/kube-system/secrets', local)).toBe(403);
  const admin = await clientOf({ commonName: 'someone', organization: 'some' });
  expect(await get('/api/v1/namespaces/kube-system/secrets', admin)).toBe(403);
  expect(await get('/healthz')).toBe(200);
  expect(asked).toHaveLength(before);
}, 30_000);

test('a removed node is refused within 10 s, and a new node of the same name is not', async () => {
  const [old, replacement] = [await kubelet('w2', 'node-old'), await kubelet('w2', 'node-new')];
  expect(await get('/api/v1/nodes/w2', old)).toBe(404);
  removed.add('node-old');
  const removedMs = nowMs();
  while ((await get('/api/v1/nodes/w2', old)) !== 403) {
    expect(nowMs() - removedMs).toBeLessThan(10_000);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  // The removed kubelet also cannot read what every authenticated user may otherwise read.
  expect(await get('/version', old)).toBe(403);
  expect(await get('/api/v1/nodes/w2', replacement)).toBe(404);
}, 30_000);

/** Gives the group of owners all rights, as kubeadm does, and returns the certificate of an owner. */
async function ownerOf(userId: string): Promise<TlsIdentity> {
  const admin = await clientOf({ commonName: 'admin', organization: 'system:masters' });
  const server = `https://127.0.0.1:${apiServer.port}`;
  const caPem = await readFile(join(directory, 'serving/apiserver.crt'), 'utf8');
  using client = new KubeClient({ server, caPem, ...admin }, { clock: new SystemClock() });
  const api = 'rbac.authorization.k8s.io';
  const binding = {
    metadata: { name: `owners-${userId.slice(-4)}` },
    roleRef: { apiGroup: api, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: api, kind: 'Group', name: KUBERNETES_GROUPS.owner }],
  };
  await client.postJson(`/apis/${api}/v1/clusterrolebindings`, binding, new AbortController().signal);
  return await clientOf({ commonName: 'owner', organization: KUBERNETES_GROUPS.owner, userId });
}

test('the kubeconfig of a removed owner is refused within 10 s', async () => {
  const userId = `sha256:${'1'.repeat(64)}`;
  const owner = await ownerOf(userId);
  expect(await get('/api/v1/namespaces/kube-system/secrets', owner)).toBe(200);
  removed.add(userId);
  const removedMs = nowMs();
  while ((await get('/api/v1/namespaces/kube-system/secrets', owner)) !== 403) {
    expect(nowMs() - removedMs).toBeLessThan(10_000);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}, 30_000);

/** Whether the API server asks the webhook about a subject. Each call is about another object, because answers are cached. */
async function isAskedAbout(subject: Review['spec']): Promise<boolean> {
  const admin = await clientOf({ commonName: 'admin', organization: 'system:masters' });
  const server = `https://127.0.0.1:${apiServer.port}`;
  const caPem = await readFile(join(directory, 'serving/apiserver.crt'), 'utf8');
  using client = new KubeClient({ server, caPem, ...admin }, { clock: new SystemClock() });
  const before = asked.length;
  const resource = { verb: 'get', version: 'v1', resource: 'nodes', name: `n${++reviews}` };
  const review = {
    ...{ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview' },
    spec: { ...subject, resourceAttributes: resource },
  };
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
  await client.postJson(path, review, new AbortController().signal);
  return asked.length > before;
}
let reviews = 0;

async function untilAsked(subject: Review['spec'], isWanted: boolean): Promise<void> {
  const startMs = nowMs();
  while ((await isAskedAbout(subject)) !== isWanted) {
    expect(nowMs() - startMs).toBeLessThan(10_000);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

test('an API server does not ask about people who are on record, and asks about everybody within 10 s after they are not', async () => {
  const { owner, operator, viewer } = KUBERNETES_GROUPS;
  const [ann, bob] = [`sha256:${'3'.repeat(64)}`, `sha256:${'4'.repeat(64)}`];
  const annSubject = { user: 'owner', uid: ann, groups: [owner, 'system:authenticated'] };
  const bobSubject = { user: 'bob', uid: bob, groups: [operator, 'system:authenticated'] };
  const stop = new AbortController();
  const ports = { files: relocated(), clock: new SystemClock(), log: createMemoryLogger().log };
  recorded = [
    { uid: ann, user: 'ann', group: owner },
    { uid: bob, user: 'bob', group: operator },
  ];
  expect(await isAskedAbout(annSubject)).toBe(true);
  const following = followRecordedPersons(ports, () => webhook, stop.signal).catch((error: unknown) => error);
  await untilAsked(annSubject, false);
  expect(await isAskedAbout(bobSubject)).toBe(false);
  const different = [
    { ...annSubject, uid: `sha256:${'5'.repeat(64)}` },
    { ...bobSubject, user: 'carl' },
    { ...bobSubject, uid: ann },
    { ...bobSubject, groups: [viewer] },
    { ...bobSubject, groups: [operator, viewer] },
    { ...bobSubject, groups: [operator, owner] },
    { ...bobSubject, groups: [operator, 'system:nodes'] },
    { ...bobSubject, user: 'system:node:bob' },
    { ...annSubject, groups: [owner, operator] },
    { ...annSubject, groups: [owner, 'system:nodes'] },
  ];
  for (const subject of different) expect([subject, await isAskedAbout(subject)]).toEqual([subject, true]);
  // A list that is not there, a shorter list, and the end of the agent.
  recorded = undefined;
  await untilAsked(bobSubject, true);
  recorded = [{ uid: ann, user: 'ann', group: owner }];
  await untilAsked(annSubject, false);
  expect(await isAskedAbout(bobSubject)).toBe(true);
  removed.add(ann);
  const person = await ownerOf(ann);
  expect(await get('/api/v1/namespaces', person)).toBe(200);
  recorded = [];
  const removedMs = nowMs();
  while ((await get('/api/v1/namespaces', person)) !== 403) {
    expect(nowMs() - removedMs).toBeLessThan(10_000);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  recorded = [{ uid: ann, user: 'ann', group: owner }];
  await untilAsked(annSubject, false);
  stop.abort(new Error('the test is over'));
  await following;
  await untilAsked(annSubject, true);
}, 90_000);

test('an administrator can run a SubjectAccessReview for a kubelet at each API server', async () => {
  const admin = await clientOf({ commonName: 'admin', organization: 'system:masters' });
  const server = `https://127.0.0.1:${apiServer.port}`;
  const caPem = await readFile(join(directory, 'serving/apiserver.crt'), 'utf8');
  using client = new KubeClient({ server, caPem, ...admin }, { clock: new SystemClock() });
  const { signal } = new AbortController();
  expect(await reviewKubelet(client, { name: 'w4', nodeId: 'node-4' }, signal)).toMatchObject({
    denied: false,
  });
  removed.add('node-5');
  expect(await reviewKubelet(client, { name: 'w4', nodeId: 'node-5' }, signal)).toMatchObject({
    allowed: false,
    denied: true,
    reason: 'test',
  });
}, 30_000);

/** Presents a test credential that this key signed, in the name of a removed node. */
async function present(
  name: TestCredentialName,
  pair: RotatingPair,
  { nodeId, accountUid }: { readonly nodeId: string; readonly accountUid?: string },
) {
  const names = [...ROTATING_KEYS, ...LATER_KEYS];
  const pairs = Object.fromEntries(names.map((key) => [key, pair])) as Required<RotatingPairs>;
  const source = { nodeId, accountUid, clusterId: 'c0ffee', clock: { nowMs } };
  const credential = await createTestCredential(name, pairs, source);
  if (typeof credential === 'string') throw new Error(credential);
  const serverCaPem = await readFile(join(directory, 'serving/apiserver.crt'), 'utf8');
  const { signal } = new AbortController();
  const target = { address: `127.0.0.1:${apiServer.port}`, path: `/api/v1/nodes/${nodeId}`, serverCaPem };
  const options = { clusterId: 'c0ffee', clock: new SystemClock(), signal };
  return judgeAnswer(
    ENDPOINT_RULES['api-server'],
    name,
    await sendCredential({ ...target, ...options }, credential),
  );
}

test('an API server refuses the certificates of a removed node and admits certificates signed with the CA key', async () => {
  const nodeId = `node-${'d'.repeat(32)}`;
  removed.add(nodeId);
  const probe = async (name: TestCredentialName, { pair }: Authority) => present(name, pair, { nodeId });
  const otherCa = await authority('kubernetes');
  expect(await probe('kubelet', kubernetesCa)).toEqual({
    outcome: Outcome.REFUSED,
    detail: expect.stringMatching(/^HTTP 403: .*: test$/) as unknown,
  });
  expect(await probe('node', otherCa)).toMatchObject({ outcome: Outcome.REFUSED });
  expect(await probe('kubernetes-user', kubernetesCa)).toMatchObject({ outcome: Outcome.ADMITTED });
  // A replaced CA has the same name and another key.
  expect(await probe('kubernetes-user', otherCa)).toMatchObject({ outcome: Outcome.REFUSED });
  expect(await probe('kubelet', otherCa)).toMatchObject({ outcome: Outcome.INCONCLUSIVE });
  // The API server must admit the kubelet of a member. Otherwise its refusals in this test would prove
  // nothing.
  const member = `node-${'e'.repeat(32)}`;
  const asMember = await present('kubelet', kubernetesCa.pair, { nodeId: member });
  expect(asMember).toMatchObject({ outcome: Outcome.ADMITTED });
  // The front proxy has a separate CA.
  expect(await probe('front-proxy', frontProxyCa)).toMatchObject({ outcome: Outcome.ADMITTED });
  expect(await probe('front-proxy', await authority('front-proxy-ca'))).toMatchObject({
    outcome: Outcome.REFUSED,
  });
}, 30_000);

test('an API server admits a token signed with the trusted key and refuses other tokens', async () => {
  const admin = await clientOf({ commonName: 'admin', organization: 'system:masters' });
  const server = `https://127.0.0.1:${apiServer.port}`;
  const caPem = await readFile(join(directory, 'serving/apiserver.crt'), 'utf8');
  using client = new KubeClient({ server, caPem, ...admin }, { clock: new SystemClock() });
  const { signal } = new AbortController();
  const accounts = '/api/v1/namespaces/kube-public/serviceaccounts';
  const { metadata } = (await client.postJson(accounts, { metadata: { name: 'default' } }, signal)) as {
    readonly metadata: { readonly uid: string };
  };
  const tryToken = async (keyPem: Secret<string>, accountUid = metadata.uid) => {
    const pair = { public: '', private: keyPem };
    return (await present('service-account', pair, { nodeId: 'any', accountUid })).outcome;
  };
  expect(await tryToken(serviceAccountKey)).toBe(Outcome.ADMITTED);
  expect(await tryToken(generateKeyPem())).toBe(Outcome.REFUSED);
  // The API server refuses a token of an unknown account even if the key is trusted. Such a refusal proves
  // nothing about the key.
  expect(await tryToken(serviceAccountKey, 'another')).toBe(Outcome.REFUSED);
}, 60_000);

test('an API server denies kubelets while the membership webhook does not answer, and lets owners act', async () => {
  const one = await kubelet('w3', 'node-3');
  const owner = await ownerOf(`sha256:${'2'.repeat(64)}`);
  const { port } = membership.address() as AddressInfo;
  membership.close();
  membership.closeAllConnections();
  await once(membership, 'close');
  // The API server returns 500, not 403, when no authorizer could decide. The kubelet treats 500 as
  // temporary.
  expect(await get('/api/v1/nodes/w3', one)).toBe(500);
  const askedMs = nowMs();
  expect(await get('/api/v1/namespaces/kube-system/secrets', owner)).toBe(200);
  // The API server calls the webhook five times.
  expect(nowMs() - askedMs).toBeLessThan(10_000);
  membership.listen(port, '127.0.0.1');
  await once(membership, 'listening');
  expect(await get('/api/v1/nodes/w3', one)).toBe(404);
}, 30_000);
