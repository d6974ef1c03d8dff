import { create as createMessage, toBinary } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, verify, X509Certificate } from 'node:crypto';
import { EtcdError, put, type EtcdClient } from '../../internal/etcd/index.ts';
import { createPairs, type RotatingPairs } from '../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem, nodeIdOf, spkiDerOf } from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records, type NodeRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, MemoryFiles } from '../../internal/testing/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { ProbeResult_Outcome as Outcome } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { KeyStore } from '../keyrotation/index.ts';
import { membersOnRecord } from '../membership/index.ts';
import { KEY_PATHS } from '../nodestate/index.ts';
import {
  createTestCredential,
  TEST_CREDENTIALS,
  type TestCertificate,
  type TestCredentialName,
} from './credentials.ts';
import { ENDPOINT_RULES, findEndpoints, judgeAnswer, type EndpointRule } from './endpoints.ts';
import { readAccountUid, runRemovalProbe } from './removal-probe.ts';

const signal = new AbortController().signal;
const NODE_ID = `node-${'a'.repeat(32)}`;
const nowMs = Date.UTC(2026, 5, 1);
const SOURCE = { nodeId: NODE_ID, clusterId: 'c0ffee', accountUid: 'u1', clock: { nowMs: () => nowMs } };
const CERTIFICATES = (Object.keys(TEST_CREDENTIALS) as TestCredentialName[]).filter(
  (name) => name !== 'service-account',
);

let pairs: Required<RotatingPairs>;
beforeAll(async () => {
  const keyPem = generateKeyPem();
  const ca = { public: await createCaCertPem({ commonName: 'lasting', keyPem, nowMs }), private: keyPem };
  pairs = { ...(await createPairs(2, nowMs)), 'cluster-ca': ca, 'kubernetes-ca': ca };
});

const create = async (name: TestCredentialName) =>
  (await createTestCredential(name, pairs, SOURCE)) as TestCertificate;

describe('createTestCredential()', () => {
  test.each(CERTIFICATES)('%s: a test certificate is valid for 60 s and has a new key', async (name) => {
    const [one, other] = [await create(name), await create(name)];
    const certificate = new X509Certificate(one.certPem);
    expect(Date.parse(certificate.validTo)).toBe(nowMs + 60_000);
    expect(one.keyPem.reveal()).not.toBe(other.keyPem.reveal());
    expect(JSON.stringify(one)).not.toContain('PRIVATE KEY');
  });

  test.each(CERTIFICATES)(
    '%s: a test certificate names the removed node, and no subject that has permissions',
    async (name) => {
      const certificate = await create(name);
      const { subject, publicKey } = new X509Certificate(certificate.certPem);
      const common = /^CN=(.*)$/m.exec(subject)?.[1];
      const harmless = [NODE_ID, `system:node:${NODE_ID}`, `removed:${NODE_ID}`];
      // A node's id is derived from its key, and the key of this certificate was never admitted. A front proxy
      // acts as another user, so its own name has no permissions.
      if (name === 'member') harmless.push(nodeIdOf(spkiDerOf(publicKey)));
      if (name === 'front-proxy') harmless.push('front-proxy-client');
      expect(harmless).toContain(common);
      expect(certificate.asUser).toBe(name === 'front-proxy' ? `removed:${NODE_ID}` : undefined);
      const groups = [...subject.matchAll(/^O=(.*)$/gm)].map(([, group]) => group);
      const known = ['cluster:nodes', 'cluster:operators', 'system:nodes'];
      expect(groups.filter((group) => !known.includes(group ?? ''))).toEqual([]);
    },
  );

  test.each([
    { name: 'node', issuer: 'lasting' },
    { name: 'kubelet', issuer: 'kubernetes clients 2' },
    { name: 'etcd-client', issuer: 'etcd clients 2' },
    { name: 'etcd-peer', issuer: 'etcd peers 2' },
    { name: 'state-etcd-client', issuer: 'state etcd clients 2' },
    { name: 'state-etcd-peer', issuer: 'state etcd peers 2' },
    { name: 'kubernetes-user', issuer: 'kubernetes clients 2' },
    { name: 'kubernetes-server', issuer: 'lasting' },
    { name: 'front-proxy', issuer: 'front-proxy-ca 2' },
    { name: 'member', issuer: 'lasting' },
    { name: 'operator', issuer: 'lasting' },
  ] as const)('signs the credential "$name" with the CA "$issuer"', async ({ name, issuer }) => {
    expect(new X509Certificate((await create(name)).certPem).issuer).toBe(`CN=${issuer}`);
  });

  test('returns the reason if the keys are deleted or the uid of the account is unknown', async () => {
    for (const name of ['etcd-client', 'operator', 'service-account'] as const)
      expect(await createTestCredential(name, undefined, SOURCE)).toMatch(/keys .* deleted$/);
    const unknown = { ...SOURCE, accountUid: undefined };
    expect(await createTestCredential('service-account', pairs, unknown)).toMatch(/service account failed$/);
  });
});

test('a test token is valid for 60 s and names an account without permissions', async () => {
  const credential = await createTestCredential('service-account', pairs, SOURCE);
  const { token } = credential as { readonly token: Secret<string> };
  const [head = '', claims = '', signature = ''] = token.reveal().split('.');
  const read = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as Record<string, unknown>;
  expect(read).toMatchObject({
    sub: 'system:serviceaccount:kube-public:default',
    iat: nowMs / 1000,
    exp: nowMs / 1000 + 60,
    'kubernetes.io': { serviceaccount: { uid: 'u1' } },
  });
  const key = createPublicKey(pairs['service-account'].public);
  const signed = Buffer.from(`${head}.${claims}`);
  const options = { key, dsaEncoding: 'ieee-p1363' } as const;
  expect(verify('sha256', signed, options, Buffer.from(signature, 'base64url'))).toBe(true);
});

test.each([
  // As Kubernetes stores it: the metadata starts with name, generateName, namespace, selfLink and uid.
  {
    stored: '\n\x07default\x12\x00\x1a\x0bkube-public"\x00*$3f2504e0-4f89-11d3-9a0c-0305e82c33012\x00',
    want: '3f2504e0-4f89-11d3-9a0c-0305e82c3301',
  },
  { stored: 'k8s:enc:secretbox:v1:key1:?', want: undefined },
  { stored: '', want: undefined },
])('readAccountUid() finds $want in $stored', async ({ stored, want }) => {
  const etcd = new MemoryEtcd();
  const key = '/registry/serviceaccounts/kube-public/default';
  etcd.commitNow({ when: [], then: [put(key, Buffer.from(stored))] });
  expect(await readAccountUid(etcd, signal)).toBe(want);
});

test('readAccountUid() returns undefined if etcd does not respond', async () => {
  const failure = new EtcdError('etcd-unavailable', 'reading etcd');
  expect(await readAccountUid({ get: () => Promise.reject(failure) }, signal)).toBeUndefined();
});

describe('judgeAnswer()', () => {
  const table: readonly (readonly [
    keyof typeof ENDPOINT_RULES,
    TestCredentialName,
    string,
    keyof typeof Outcome,
  ])[] = [
    ['etcd-client', 'etcd-client', 'TLS: unknown ca', 'REFUSED'],
    ['etcd-client', 'etcd-client', 'HTTP 200', 'ADMITTED'],
    // TLS accepted the certificate, so the status of the response does not matter.
    ['etcd-peer', 'etcd-peer', 'HTTP 404', 'ADMITTED'],
    ['state-etcd-peer', 'kubelet', 'HTTP 401', 'ADMITTED'],
    ['etcd-peer', 'etcd-peer', 'TLS: unknown ca', 'REFUSED'],
    // The server's clock is wrong, or no server accepts such a certificate. Neither proves anything about the
    // CA.
    ['etcd-client', 'etcd-client', 'TLS: certificate expired', 'INCONCLUSIVE'],
    ['etcd-client', 'node', 'TLS: bad certificate', 'INCONCLUSIVE'],
    ['curator', 'member', 'TLS: closed after the handshake', 'REFUSED'],
    ['curator', 'member', 'no answer: connect ECONNREFUSED', 'INCONCLUSIVE'],
    ['etcd-peer', 'node', 'no answer: connect ECONNREFUSED', 'INCONCLUSIVE'],
    ['etcd-peer', 'node', 'no answer: TLS: unknown ca', 'INCONCLUSIVE'],
    ['api-server', 'kubelet', 'HTTP 403: cluster: node x is not a member', 'REFUSED'],
    ['api-server', 'kubelet', 'HTTP 404', 'ADMITTED'],
    ['api-server', 'kubelet', 'HTTP 200', 'ADMITTED'],
    ['api-server', 'kubelet', 'HTTP 401', 'INCONCLUSIVE'],
    ['api-server', 'node', 'HTTP 401', 'REFUSED'],
    ['api-server', 'node', 'HTTP 401: Unauthorized', 'REFUSED'],
    ['api-server', 'node', 'HTTP 403', 'ADMITTED'],
    ['api-server', 'node', 'no answer: HTTP 401', 'INCONCLUSIVE'],
    ['api-server', 'kubernetes-user', 'HTTP 403', 'ADMITTED'],
    ['api-server', 'kubernetes-user', 'HTTP 401', 'REFUSED'],
    ['api-server', 'node', 'HTTP 500: HTTP 401', 'INCONCLUSIVE'],
    ['kubelet', 'kubelet', 'HTTP 403', 'REFUSED'],
    ['kubelet', 'kubernetes-user', 'TLS: unknown ca', 'INCONCLUSIVE'],
    ['kubelet', 'kubernetes-user', 'HTTP 503', 'INCONCLUSIVE'],
    ['api-server', 'service-account', 'HTTP 401', 'REFUSED'],
    ['api-server', 'front-proxy', 'HTTP 403', 'ADMITTED'],
    ['curator', 'member', 'curator-not-member', 'REFUSED'],
    ['curator', 'operator', 'curator-denied', 'ADMITTED'],
    ['curator', 'member', 'etcd-unavailable', 'INCONCLUSIVE'],
    ['curator', 'member', 'HTTP 200', 'ADMITTED'],
  ];
  test.each(table)(
    'endpoint %s, credential %s, answer %j: the result is %s',
    (endpoint, credential, detail, outcome) => {
      expect(judgeAnswer(ENDPOINT_RULES[endpoint], credential, detail)).toEqual({
        outcome: Outcome[outcome],
        detail,
      });
    },
  );
});

const record = (nodeId: string, over: Partial<NodeRecord> = {}): NodeRecord => ({
  version: 1,
  nodeId,
  name: `name-of-${nodeId}`,
  pubKey: '',
  state: 'UP',
  roles: ['KubernetesWorker'],
  labels: {},
  createdMs: 0,
  ...over,
});

/** Writes the records of a node. A node without a heartbeat counts as absent. */
function enter(
  etcd: MemoryEtcd,
  node: NodeRecord,
  at: { address?: string; isAlive?: boolean; prefix?: string } = {},
): void {
  const { address = '192.0.2.1', isAlive = true, prefix = '' } = at;
  const status = Buffer.from(toBinary(NodeStatusSchema, createMessage(NodeStatusSchema, { address })));
  const reported = { version: 1, status: status.toString('base64'), updatedMs: 0 } as const;
  const { nodeId } = node;
  etcd.commitNow({
    when: [],
    then: [
      put(prefix + records.node.key(nodeId), records.node.encode(node)),
      put(prefix + records.status.key(nodeId), records.status.encode(reported)),
      ...(isAlive
        ? [put(prefix + records.heartbeat.key(nodeId), records.heartbeat.encode({ version: 1, sinceMs: 0 }))]
        : []),
    ],
  });
}

const member = (name: string) => ({
  id: 1n,
  name,
  peerUrls: ['https://192.0.2.7:2380'],
  clientUrls: ['https://[2001:db8::7]:2379'],
  isLearner: false,
});

describe('findEndpoints()', () => {
  test('lists the endpoints of live members and the names of absent members', async () => {
    const etcd = new MemoryEtcd();
    enter(etcd, record('cp', { roles: ['ConsensusMember', 'KubernetesController'] }));
    enter(etcd, record('worker'), { address: '192.0.2.2' });
    enter(etcd, record('off'), { isAlive: false });
    enter(etcd, record('silent'), { address: '' });
    enter(etcd, record('gone', { state: 'DECOMMISSIONED' }));
    const { entries } = await etcd.list('nodes/', { signal });
    const members = [member('cp'), member('gone'), member('unknown')];
    const { endpoints, away } = findEndpoints(membersOnRecord(entries), {
      kubernetes: members,
      state: members,
    });
    expect(endpoints.map(({ kind, node, address }) => `${kind} ${node} ${address}`)).toEqual([
      'etcd-client name-of-cp [2001:db8::7]:2379',
      'etcd-peer name-of-cp 192.0.2.7:2380',
      'state-etcd-client name-of-cp [2001:db8::7]:2379',
      'state-etcd-peer name-of-cp 192.0.2.7:2380',
      'api-server name-of-cp 192.0.2.1:6443',
      'kubelet name-of-cp 192.0.2.1:10250',
      'curator name-of-cp 192.0.2.1:9091',
      'kubelet name-of-worker 192.0.2.2:10250',
    ]);
    expect([...away].sort()).toEqual(['name-of-off', 'name-of-silent']);
  });
});

describe('runRemovalProbe()', () => {
  const run = (etcd: MemoryEtcd, nodeId: string) => {
    const { log } = createMemoryLogger();
    const state = Object.assign(etcd, { members: { list: async () => [] } }) as unknown as EtcdClient;
    const files = new MemoryFiles();
    const ports = {
      ...{ etcds: { state, kubernetes: state }, files, store: new KeyStore(files, KEY_PATHS) },
      clock: new FakeClock(),
      log,
      clusterId: 'c0ffee',
      nodeName: 'n1',
    };
    const request = { removedNodeId: nodeId, heldKeys: true, generation: 0n };
    return runRemovalProbe(ports, request, signal);
  };

  test('refuses the id of a member before it reads a key', async () => {
    const etcd = new MemoryEtcd();
    enter(etcd, record(NODE_ID), { prefix: CLUSTER_PREFIX });
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'removalprobe-is-member' });
  });

  test('accepts a decommissioned or unknown node, and then requires the keys of a control plane', async () => {
    const etcd = new MemoryEtcd();
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'keyrotation-keys-unavailable' });
    enter(etcd, record(NODE_ID, { state: 'DECOMMISSIONED' }), { prefix: CLUSTER_PREFIX });
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'keyrotation-keys-unavailable' });
  });

  test.each(['', 'root', 'node-', `${NODE_ID}/record`, `node-${'A'.repeat(32)}`])(
    'refuses %j, which is not a node id',
    async (nodeId) => {
      await expect(run(new MemoryEtcd(), nodeId)).rejects.toMatchObject({
        code: 'removalprobe-request-invalid',
      });
    },
  );
});

test('ENDPOINT_RULES names the credentials that each kind of endpoint must refuse', () => {
  const own = ['node', 'kubelet'];
  const ofKubernetes = ['kubernetes-user', 'kubernetes-server', 'service-account'];
  const etcd = ['etcd-client', 'etcd-peer', 'state-etcd-client', 'state-etcd-peer'];
  const ofEtcd = etcd.map((kind) => [
    kind,
    { own, held: [kind], foreign: etcd.filter((name) => name !== kind) },
  ]);
  const rules = Object.entries<EndpointRule>(ENDPOINT_RULES).map(([kind, rule]) => {
    const { own: had, held, foreign } = rule;
    return [kind, { own: had, held, foreign }];
  });
  expect(Object.fromEntries(rules)).toEqual({
    ...Object.fromEntries(ofEtcd),
    'api-server': { own, held: [...ofKubernetes, 'front-proxy'], foreign: [] },
    kubelet: { own, held: ofKubernetes, foreign: [] },
    // The CLI checks the record of the removed node instead.
    curator: { own: [], held: ['member', 'operator'], foreign: [] },
  });
});
