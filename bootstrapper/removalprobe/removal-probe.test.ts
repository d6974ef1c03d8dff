import { create, toBinary } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPublicKey, verify, X509Certificate } from 'node:crypto';
import { put } from '../../internal/etcd/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeIdOf,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { records, type NodeRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, MemoryEtcd, MemoryFiles } from '../../internal/testing/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { judgeAnswer, ENDPOINT_RULES, type EndpointKind, type Outcome } from './endpoints.ts';
import { findEndpoints } from './find-endpoints.ts';
import type { ProbeAnswer } from './probe-endpoint.ts';
import { TEST_CERTIFICATES, createTestCertificate, type TestCredentialName } from './test-credentials.ts';
import { createServiceAccountToken, uidIn } from './service-account-token.ts';
import { runRemovalProbe, type RemovalProbeFiles } from './removal-probe.ts';

const signal = new AbortController().signal;
const NODE_ID = `node-${'a'.repeat(32)}`;
const REMOVED = { nodeId: NODE_ID, clusterId: 'c0ffee' };
const nowMs = Date.UTC(2026, 5, 1);

let signer: KeyCertificateSigner;
beforeAll(async () => {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'any', keyPem, nowMs });
  signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => nowMs });
});

describe('makePaper()', () => {
  test.each(TEST_CERTIFICATES)('%s lives a minute and for a key of its own', async (name) => {
    const [one, other] = [
      await createTestCertificate(name, REMOVED, signer),
      await createTestCertificate(name, REMOVED, signer),
    ];
    const certificate = new X509Certificate(one.certPem);
    expect(Date.parse(certificate.validTo)).toBe(nowMs + 60_000);
    expect(one.keyPem.reveal()).not.toBe(other.keyPem.reveal());
    expect(JSON.stringify(one)).not.toContain('PRIVATE KEY');
  });

  test.each(TEST_CERTIFICATES)('%s names the removed node and nobody with a right', async (name) => {
    const paper = await createTestCertificate(name, REMOVED, signer);
    const { subject, publicKey } = new X509Certificate(paper.certPem);
    const common = /^CN=(.*)$/m.exec(subject)?.[1];
    const harmless = [NODE_ID, `system:node:${NODE_ID}`, `removed:${NODE_ID}`];
    // A node's id is its key's, and this key was never admitted; a front proxy is what it says of others.
    if (name === 'member') harmless.push(nodeIdOf(spkiDerOf(publicKey)));
    if (name === 'front-proxy') harmless.push('front-proxy-client');
    expect(harmless).toContain(common);
    expect(paper.asUser).toBe(name === 'front-proxy' ? `removed:${NODE_ID}` : undefined);
    const groups = [...subject.matchAll(/^O=(.*)$/gm)].map(([, group]) => group);
    const known = ['cluster:nodes', 'cluster:operators', 'system:nodes'];
    expect(groups.filter((group) => !known.includes(group ?? ''))).toEqual([]);
  });
});

test('a token is that of an account without rights, lives a minute, and is verified by its key', () => {
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
  { body: '{"metadata":{"uid":"u1"}}', want: 'u1' },
  { body: '{"metadata":{"uid":1}}', want: undefined },
  { body: '{"kind":"Status","message":"forbidden"}', want: undefined },
  { body: 'Forbidden', want: undefined },
  { body: '', want: undefined },
])('uidIn($body) is $want', ({ body, want }) => {
  expect(uidIn(body)).toBe(want);
});

describe('judge()', () => {
  const status = (code: number, message?: string): ProbeAnswer => ({
    kind: 'status',
    status: code,
    body: message === undefined ? '' : JSON.stringify({ message }),
  });
  const alert = (name: string): ProbeAnswer => ({ kind: 'alert', alert: name });
  const table: readonly (readonly [EndpointKind, TestCredentialName, ProbeAnswer, Outcome])[] = [
    ['etcd-client', 'etcd-client', alert('UNKNOWN_CA'), 'refused'],
    ['etcd-client', 'etcd-client', status(200), 'let-in'],
    // Let in by TLS is let in, whatever the program then thinks of the request.
    ['etcd-peer', 'etcd-peer', status(404), 'let-in'],
    ['etcd-peer', 'etcd-peer', alert('UNKNOWN_CA'), 'refused'],
    // The door's clock, or a certificate that nobody would take: says nothing about the authority.
    ['etcd-client', 'etcd-client', alert('CERTIFICATE_EXPIRED'), 'unproved'],
    ['etcd-client', 'node', alert('BAD_CERTIFICATE'), 'unproved'],
    ['etcd-peer', 'node', { kind: 'failed', why: 'connect ECONNREFUSED' }, 'unproved'],
    ['api-server', 'kubelet', status(403, 'cluster: node x is on no record'), 'refused'],
    ['api-server', 'kubelet', status(404), 'let-in'],
    ['api-server', 'kubelet', status(200), 'let-in'],
    ['api-server', 'kubelet', status(401), 'unproved'],
    ['api-server', 'node', status(401), 'refused'],
    ['api-server', 'node', status(403), 'let-in'],
    ['api-server', 'kubernetes-user', status(403), 'let-in'],
    ['api-server', 'kubernetes-user', status(401), 'refused'],
    ['api-server', 'node', status(500), 'unproved'],
    ['kubelet', 'kubelet', status(403), 'refused'],
    ['kubelet', 'kubernetes-user', alert('UNKNOWN_CA'), 'unproved'],
    ['kubelet', 'kubernetes-user', status(503), 'unproved'],
    ['api-server', 'service-account', status(401), 'refused'],
    ['api-server', 'front-proxy', status(403), 'let-in'],
    ['curator', 'member', { kind: 'code', code: 'curator-not-member' }, 'refused'],
    ['curator', 'operator', { kind: 'code', code: 'curator-denied' }, 'let-in'],
    ['curator', 'member', { kind: 'code', code: 'etcd-unavailable' }, 'unproved'],
    ['curator', 'member', status(200), 'let-in'],
  ];
  test.each(table)('%s, %s paper, %j: %s', (door, paper, answer, want) => {
    expect(judgeAnswer(door, paper, answer).outcome).toBe(want);
  });

  test("tells the API server's reason, and nothing else of a body", () => {
    expect(judgeAnswer('api-server', 'kubelet', status(403, 'on no record')).detail).toBe(
      'HTTP 403: on no record',
    );
    expect(judgeAnswer('kubelet', 'kubelet', { kind: 'status', status: 403, body: 'Forbidden' }).detail).toBe(
      'HTTP 403',
    );
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

/** A node as etcd has it; without a heart where it is not there. */
function enter(etcd: MemoryEtcd, node: NodeRecord, at: { address?: string; beats?: boolean } = {}): void {
  const { address = '192.0.2.1', beats = true } = at;
  const status = Buffer.from(toBinary(NodeStatusSchema, create(NodeStatusSchema, { address })));
  const said = { version: 1, status: status.toString('base64'), updatedMs: 0 } as const;
  const { nodeId } = node;
  etcd.commitNow({
    when: [],
    then: [
      put(records.node.key(nodeId), records.node.encode(node)),
      put(records.status.key(nodeId), records.status.encode(said)),
      ...(beats
        ? [put(records.heartbeat.key(nodeId), records.heartbeat.encode({ version: 1, sinceMs: 0 }))]
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

describe('findDoors()', () => {
  test('are those of members that are there; who is away is named', async () => {
    const etcd = new MemoryEtcd();
    enter(etcd, record('cp', { roles: ['ConsensusMember', 'KubernetesController'] }));
    enter(etcd, record('worker'), { address: '192.0.2.2' });
    enter(etcd, record('off'), { beats: false });
    enter(etcd, record('silent'), { address: '' });
    enter(etcd, record('gone', { state: 'DECOMMISSIONED' }));
    const { entries } = await etcd.list('nodes/', { signal });
    const members = [member('cp'), member('gone'), member('stranger')];
    const { doors, away } = findEndpoints(entries, { kubernetes: members, state: members });
    expect(doors.map(({ kind, node, host, port }) => `${kind} ${node} ${host} ${port}`)).toEqual([
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

describe('tryPapers()', () => {
  const pair = { certFile: '/none.crt', keyFile: '/none.key' };
  const genuine = { ...pair, path: '/' };
  const files: RemovalProbeFiles = {
    authorities: {
      'cluster-ca': pair,
      'etcd-clients-ca': pair,
      'etcd-peers-ca': pair,
      'state-clients-ca': pair,
      'state-peers-ca': pair,
      'kubernetes-ca': pair,
      'kubernetes-clients-ca': pair,
      'front-proxy-ca': pair,
    },
    serviceAccountKey: '/none.key',
    rotation: '/none.json',
    genuine: {
      'etcd-client': genuine,
      'etcd-peer': genuine,
      'state-etcd-client': genuine,
      'state-etcd-peer': genuine,
      'api-server': genuine,
      kubelet: genuine,
      curator: genuine,
    },
  };
  const run = (etcd: MemoryEtcd, nodeId: string) => {
    const { log } = createMemoryLogger();
    const ports = { etcd, files: new MemoryFiles(), nowMs: () => nowMs, log, clusterId: 'c0ffee' };
    const wish = { nodeId, heldKeys: true, generation: 0 };
    return runRemovalProbe(
      { ...ports, listMembers: async () => ({ kubernetes: [], state: [] }) },
      files,
      wish,
      signal,
    );
  };

  test("never borrows a member's name: nothing is read or made", async () => {
    const etcd = new MemoryEtcd();
    enter(etcd, record(NODE_ID));
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'removalprobe-is-member' });
  });

  test('takes one that is decommissioned or on no record as far as it has keys', async () => {
    const etcd = new MemoryEtcd();
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'removalprobe-not-control-plane' });
    enter(etcd, record(NODE_ID, { state: 'DECOMMISSIONED' }));
    await expect(run(etcd, NODE_ID)).rejects.toMatchObject({ code: 'removalprobe-not-control-plane' });
  });

  test.each(['', 'root', 'node-', `${NODE_ID}/record`, `node-${'A'.repeat(32)}`])(
    'refuses %j, which is no id',
    async (nodeId) => {
      await expect(run(new MemoryEtcd(), nodeId)).rejects.toMatchObject({
        code: 'removalprobe-request-invalid',
      });
    },
  );
});

test('every door that may know a node is tried with the papers that the removed one had', () => {
  for (const [kind, { own }] of Object.entries(ENDPOINT_RULES))
    expect(own).toEqual(kind === 'curator' ? [] : ['node', 'kubelet']);
});
