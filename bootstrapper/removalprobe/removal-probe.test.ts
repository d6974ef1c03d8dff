import { create, toBinary } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, verify, X509Certificate } from 'node:crypto';
import { EtcdError, put } from '../../internal/etcd/index.ts';
import { createPairs } from '../../internal/keyset/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeIdOf,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records, type NodeRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, MemoryFiles } from '../../internal/testing/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  createServiceAccountToken,
  createTestCertificate,
  createTestCredential,
  readAccountUid,
  TEST_CERTIFICATES,
  type TestCredentialName,
} from './credentials.ts';
import {
  credentialsFor,
  ENDPOINT_RULES,
  findEndpoints,
  judgeAnswer,
  type EndpointKind,
  type Verdict,
} from './endpoints.ts';
import { runRemovalProbe } from './removal-probe.ts';

const signal = new AbortController().signal;
const NODE_ID = `node-${'a'.repeat(32)}`;
const REMOVED = { nodeId: NODE_ID, clusterId: 'c0ffee' };
const NAMES = Object.keys(TEST_CERTIFICATES) as (keyof typeof TEST_CERTIFICATES)[];
const nowMs = Date.UTC(2026, 5, 1);

let signer: KeyCertificateSigner;
beforeAll(async () => {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'any', keyPem, nowMs });
  signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => nowMs });
});

describe('createTestCertificate()', () => {
  test.each(NAMES)('%s: a test certificate is valid for 60 s and has a new key', async (name) => {
    const [one, other] = [
      await createTestCertificate(name, REMOVED, signer),
      await createTestCertificate(name, REMOVED, signer),
    ];
    const certificate = new X509Certificate(one.certPem);
    expect(Date.parse(certificate.validTo)).toBe(nowMs + 60_000);
    expect(one.keyPem.reveal()).not.toBe(other.keyPem.reveal());
    expect(JSON.stringify(one)).not.toContain('PRIVATE KEY');
  });

  test.each(NAMES)(
    '%s: a test certificate names the removed node, and no subject that has permissions',
    async (name) => {
      const certificate = await createTestCertificate(name, REMOVED, signer);
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
});

describe('createTestCredential()', () => {
  const createKeys = async () => {
    const keyPem = generateKeyPem();
    const ca = { public: await createCaCertPem({ commonName: 'lasting', keyPem, nowMs }), private: keyPem };
    const lasting = { 'cluster-ca': ca, 'kubernetes-ca': ca };
    const [previous, next] = [await createPairs(2, nowMs), await createPairs(3, nowMs)];
    const phase = 'distribute' as const;
    return { generation: 3, phase, previous: { ...previous, ...lasting }, next: { ...next, ...lasting } };
  };

  test.each([
    { name: 'etcd-client', generation: 0, issuer: 'etcd clients 2' },
    { name: 'etcd-client', generation: 2, issuer: 'etcd clients 2' },
    { name: 'etcd-client', generation: 3, issuer: 'etcd clients 3' },
    { name: 'operator', generation: 0, issuer: 'lasting' },
    { name: 'operator', generation: 2, issuer: 'lasting' },
    { name: 'kubernetes-server', generation: 3, issuer: 'lasting' },
  ] as const)('signs $name with the CA $issuer of generation $generation', async (row) => {
    const source = {
      ...REMOVED,
      keys: await createKeys(),
      accountUid: undefined,
      clock: { nowMs: () => nowMs },
    };
    const credential = await createTestCredential(row.name, row.generation, source);
    const { certPem = '' } = credential as { certPem?: string };
    expect(new X509Certificate(certPem).issuer).toBe(`CN=${row.issuer}`);
  });

  test.each(['etcd-client', 'operator', 'service-account'] as const)(
    'returns the reason if the keys that create %s are deleted',
    async (name) => {
      const source = {
        ...REMOVED,
        keys: await createKeys(),
        accountUid: 'u1',
        clock: { nowMs: () => nowMs },
      };
      for (const generation of [1, 4])
        expect(await createTestCredential(name, generation, source)).toMatch(/keys .* deleted$/);
      expect(await createTestCredential('service-account', 2, { ...source, accountUid: undefined })).toMatch(
        /service account failed$/,
      );
    },
  );
});

test('createServiceAccountToken() creates a token that is valid for 60 s, of an account without permissions', () => {
  const keyPem = generateKeyPem();
  const [head = '', claims = '', signature = ''] = createServiceAccountToken(keyPem, { uid: 'u1', nowMs })
    .reveal()
    .split('.');
  const read = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as Record<string, unknown>;
  expect(read).toMatchObject({
    sub: 'system:serviceaccount:kube-public:default',
    iat: nowMs / 1000,
    exp: nowMs / 1000 + 60,
    'kubernetes.io': { serviceaccount: { uid: 'u1' } },
  });
  const key = createPublicKey(keyPem.reveal());
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
  const table: readonly (readonly [EndpointKind, TestCredentialName, string, Verdict['outcome']])[] = [
    ['etcd-client', 'etcd-client', 'TLS: unknown ca', 'refused'],
    ['etcd-client', 'etcd-client', 'HTTP 200', 'admitted'],
    // TLS accepted the certificate, so the status of the response does not matter.
    ['etcd-peer', 'etcd-peer', 'HTTP 404', 'admitted'],
    ['state-etcd-peer', 'kubelet', 'HTTP 401', 'admitted'],
    ['etcd-peer', 'etcd-peer', 'TLS: unknown ca', 'refused'],
    // The server's clock is wrong, or no server accepts such a certificate. Neither proves anything about the
    // CA.
    ['etcd-client', 'etcd-client', 'TLS: certificate expired', 'inconclusive'],
    ['etcd-client', 'node', 'TLS: bad certificate', 'inconclusive'],
    ['curator', 'member', 'TLS: closed after the handshake', 'refused'],
    ['curator', 'member', 'no answer: connect ECONNREFUSED', 'inconclusive'],
    ['etcd-peer', 'node', 'no answer: connect ECONNREFUSED', 'inconclusive'],
    ['etcd-peer', 'node', 'no answer: TLS: unknown ca', 'inconclusive'],
    ['api-server', 'kubelet', 'HTTP 403: cluster: node x is not a member', 'refused'],
    ['api-server', 'kubelet', 'HTTP 404', 'admitted'],
    ['api-server', 'kubelet', 'HTTP 200', 'admitted'],
    ['api-server', 'kubelet', 'HTTP 401', 'inconclusive'],
    ['api-server', 'node', 'HTTP 401', 'refused'],
    ['api-server', 'node', 'HTTP 401: Unauthorized', 'refused'],
    ['api-server', 'node', 'HTTP 403', 'admitted'],
    ['api-server', 'node', 'no answer: HTTP 401', 'inconclusive'],
    ['api-server', 'kubernetes-user', 'HTTP 403', 'admitted'],
    ['api-server', 'kubernetes-user', 'HTTP 401', 'refused'],
    ['api-server', 'node', 'HTTP 500: HTTP 401', 'inconclusive'],
    ['kubelet', 'kubelet', 'HTTP 403', 'refused'],
    ['kubelet', 'kubernetes-user', 'TLS: unknown ca', 'inconclusive'],
    ['kubelet', 'kubernetes-user', 'HTTP 503', 'inconclusive'],
    ['api-server', 'service-account', 'HTTP 401', 'refused'],
    ['api-server', 'front-proxy', 'HTTP 403', 'admitted'],
    ['curator', 'member', 'curator-not-member', 'refused'],
    ['curator', 'operator', 'curator-denied', 'admitted'],
    ['curator', 'member', 'etcd-unavailable', 'inconclusive'],
    ['curator', 'member', 'answered', 'admitted'],
  ];
  test.each(table)('%s, %s credential, %j: %s', (endpoint, credential, text, outcome) => {
    expect(judgeAnswer(endpoint, credential, text)).toEqual({ outcome, detail: text });
  });
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
  const status = Buffer.from(toBinary(NodeStatusSchema, create(NodeStatusSchema, { address })));
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
    const { endpoints, away } = findEndpoints(entries, { kubernetes: members, state: members });
    expect(endpoints.map(({ kind, node, host, port }) => `${kind} ${node} ${host} ${port}`)).toEqual([
      'etcd-client name-of-cp 2001:db8::7 2379',
      'etcd-peer name-of-cp 192.0.2.7 2380',
      'state-etcd-client name-of-cp 2001:db8::7 2379',
      'state-etcd-peer name-of-cp 192.0.2.7 2380',
      'api-server name-of-cp 192.0.2.1 6443',
      'kubelet name-of-cp 192.0.2.1 10250',
      'curator name-of-cp 192.0.2.1 9091',
      'kubelet name-of-worker 192.0.2.2 10250',
    ]);
    expect([...away].sort()).toEqual(['name-of-off', 'name-of-silent']);
  });
});

describe('runRemovalProbe()', () => {
  const run = (etcd: MemoryEtcd, nodeId: string) => {
    const { log } = createMemoryLogger();
    const members = { list: async () => [] };
    const ports = {
      etcds: {
        state: Object.assign(etcd, { members }),
        kubernetes: { get: async () => undefined, keys: async function* () {}, members },
      },
      files: new MemoryFiles(),
      clock: new FakeClock(),
      log,
      clusterId: 'c0ffee',
      nodeName: 'n1',
    };
    const request = { nodeId, heldKeys: true, generation: 0 };
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

describe('credentialsFor()', () => {
  const namesFor = (kind: EndpointKind, heldKeys: boolean, generation: number) =>
    credentialsFor(kind, { heldKeys, generation }).map((each) => `${each.name} ${each.generation}`);

  test('every endpoint except the curator is probed with the certificates that the removed node had', () => {
    for (const kind of Object.keys(ENDPOINT_RULES) as EndpointKind[])
      expect(namesFor(kind, false, 2)).toEqual(kind === 'curator' ? [] : ['node 0', 'kubelet 0']);
  });

  test('only credentials of held keys are created with the keys of the requested generation', () => {
    expect(namesFor('etcd-peer', true, 2)).toEqual([
      'node 0',
      'kubelet 0',
      'etcd-client 0',
      'state-etcd-peer 0',
      'etcd-peer 2',
    ]);
  });

  test('a request without a generation tests all credentials with the current keys', () => {
    expect(namesFor('curator', true, 0)).toEqual(['member 0', 'operator 0']);
  });
});
