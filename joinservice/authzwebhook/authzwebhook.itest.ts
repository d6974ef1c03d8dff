import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request } from 'node:https';
import { connect, Socket } from 'node:net';
import { SystemClock } from '../../internal/clock/index.ts';
import { Namespace, remove } from '../../internal/etcd/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { CLUSTER_PREFIX, records } from '../../internal/records/index.ts';
import { RECORDED_PERSONS_PATH } from '../../internal/role/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import {
  createMemoryLogger,
  TestCluster,
  TestEtcd,
  untilServing,
  type TestMember,
  type TestPeer,
} from '../../internal/testing/index.ts';
import { OwnerDocuments } from '../ownerdocs/index.ts';
import { createMembershipLookup, listRecordedPersons } from './membership-lookup.ts';
import { serveAuthorization } from './serve-authorization.ts';

const clock = new SystemClock();
const never = new AbortController().signal;
const stop = new AbortController();

let etcd: TestEtcd;
let member: TestMember;
let space: Namespace;
let cluster: TestCluster;
let ownerDocs: OwnerDocuments;
let own: TestPeer;
let callersCaPem: string;
let port: number;
let serving: Promise<unknown>;

/** Runs the webhook of one node with a real etcd. Its methods send requests as the API server does. */
beforeAll(async () => {
  etcd = await TestEtcd.create();
  member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  space = new Namespace(root, CLUSTER_PREFIX);
  cluster = await TestCluster.create(space, () => clock.nowMs());
  ownerDocs = new OwnerDocuments({ etcd: space, clock, clusterId: cluster.clusterId, ownerKeys: [] });
  own = await cluster.addNode('cp');
  callersCaPem = (await etcd.clientFiles('apiserver')).caPem;
  const listening = Promise.withResolvers<number>();
  serving = serveAuthorization(
    { port: 0, identity: own.tls, callersCaPem, onListening: listening.resolve },
    {
      lookup: createMembershipLookup({ etcd: space, ownerDocs }, clock),
      persons: (signal) => listRecordedPersons({ ownerDocs, clock }, signal),
      log: createMemoryLogger().log,
    },
    stop.signal,
  ).catch((error: unknown) => error);
  port = await listening.promise;
}, 30_000);

afterAll(async () => {
  stop.abort(new Error('the test is over'));
  await serving;
  await etcd[Symbol.asyncDispose]();
}, 20_000);

interface Answer {
  readonly status: number;
  readonly denied: boolean;
  readonly allowed: boolean;
}

/**
 * Connects as kube-apiserver does: expects the node ID in the server certificate and shows a client
 * certificate.
 */
function ask(spec: object, caller: TlsIdentity, body?: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  const asked = request(
    {
      ...{ host: '127.0.0.1', port, path: '/authorize?timeout=3s', method: 'POST', agent: false },
      ca: cluster.trust.caPem,
      servername: own.identity.kind === 'node' ? own.identity.nodeId : '',
      cert: caller.certPem,
      key: caller.keyPem.reveal(),
    },
    (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => {
        const text = Buffer.concat(parts).toString('utf8');
        const { status } = (text === '' ? { status: {} } : JSON.parse(text)) as { status: Partial<Answer> };
        const { denied = false, allowed = false } = status;
        resolve({ status: response.statusCode ?? 0, denied, allowed });
      });
    },
  );
  asked.on('error', reject);
  asked.end(body ?? JSON.stringify(review));
  return promise;
}

const kubeletOf = (name: string, uid: string): object => ({
  ...{ user: `system:node:${name}`, uid, groups: ['system:nodes', 'system:authenticated'] },
  resourceAttributes: { verb: 'update', group: 'coordination.k8s.io', resource: 'leases', name },
});
const idOf = ({ identity }: TestPeer): string => (identity.kind === 'node' ? identity.nodeId : '');

test('the webhook denies the kubelet of a removed node within seconds, but not the new node with its name', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  const old = await cluster.addNode('w1');
  expect(await ask(kubeletOf('w1', idOf(old)), apiServer)).toMatchObject({ status: 200, denied: false });
  await space.commit({ when: [], then: [remove(records.node.key(idOf(old)))] }, { signal: never });
  const removedMs = clock.monotonicMs();
  while (!(await ask(kubeletOf('w1', idOf(old)), apiServer)).denied)
    expect(clock.monotonicMs() - removedMs).toBeLessThan(5_000);
  const replacement = await cluster.addNode('w1');
  expect(await ask(kubeletOf('w1', idOf(replacement)), apiServer)).toMatchObject({
    status: 200,
    denied: false,
  });
  expect(await ask(kubeletOf('w1', idOf(old)), apiServer)).toMatchObject({ status: 200, denied: true });
});

test('the webhook answers only the API server', async () => {
  const spec = kubeletOf('w1', 'node-1');
  expect((await ask(spec, await etcd.clientFiles('curator'))).status).toBe(403);
  const keyPem = generateKeyPem();
  const nowMs = (): number => clock.nowMs();
  const caPem = await createCaCertPem({ commonName: 'etcd clients', keyPem, nowMs: nowMs() });
  const forgedKey = generateKeyPem();
  const forged = await new KeyCertificateSigner({ caPem, keyPem, nowMs }).issue({
    ...{ commonName: 'apiserver', pubKeyDer: pubKeyDerOf(forgedKey), usages: ['client'], names: [] },
    validDays: 1,
  });
  await expect(ask(spec, { certPem: forged, keyPem: forgedKey })).rejects.toThrow();
  // // A node certificate of a cluster member is not an etcd client certificate.
  await expect(ask(spec, own.tls)).rejects.toThrow();
});

/** Asks for the list of recorded people as the agent does. */
function persons(caller: TlsIdentity): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        ...{ host: '127.0.0.1', port, path: RECORDED_PERSONS_PATH, agent: false, ca: cluster.trust.caPem },
        servername: own.identity.kind === 'node' ? own.identity.nodeId : '',
        ...{ cert: caller.certPem, key: caller.keyPem.reveal() },
      },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode));
      },
    );
    asked.on('error', reject);
    asked.end();
  });
}

test('the webhook gives the list of recorded people to nobody but the API server and the agent, and none while etcd is unavailable', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  expect(await persons(apiServer)).toBe(200);
  expect(await persons(await etcd.clientFiles('curator'))).toBe(403);
  await member.freeze();
  try {
    expect(await persons(apiServer)).toBe(500);
  } finally {
    member.thaw();
  }
  await untilServing(await etcd.connect('root', member.endpoint));
}, 20_000);

test('the webhook refuses malformed and too long reviews', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  expect((await ask({}, apiServer, '{"kind":"Pod"}')).status).toBe(400);
  expect((await ask({}, apiServer, ' '.repeat(300_000))).status).toBe(413);
});

test('the webhook serves the API server however many silent connections are open', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  const live = await cluster.addNode('w3');
  const silent: Socket[] = [];
  try {
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 200; i++) {
        const socket = connect({ host: '127.0.0.1', port });
        socket.on('error', () => undefined); // the webhook closes this connection to make room for a newer one
        silent.push(socket);
        // Half of the clients begin a TLS handshake and do not continue it.
        if (i % 2 === 0) socket.write(Buffer.from([0x16, 0x03, 0x01]));
      }
      await once(silent.at(-1) ?? new Socket(), 'connect');
      expect(await ask(kubeletOf('w3', idOf(live)), apiServer)).toMatchObject({ status: 200, denied: false });
    }
  } finally {
    for (const socket of silent) socket.destroy();
  }
});

test('the webhook denies an owner without a signed record, but gives no opinion about owners while etcd is unavailable', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  const uid = `sha256:${'c'.repeat(64)}`;
  const unsigned = { user: 'eve', uid, groups: ['kubeadm:cluster-admins', 'system:authenticated'] };
  expect(await ask(unsigned, apiServer)).toMatchObject({ status: 200, denied: true });
  await member.freeze();
  try {
    // Waits until the webhook has forgotten its answer, which it caches for a second.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(await ask(unsigned, apiServer)).toMatchObject({ status: 200, denied: false, allowed: false });
  } finally {
    member.thaw();
  }
  await untilServing(await etcd.connect('root', member.endpoint));
}, 20_000);

test('the webhook decides nothing about nodes while etcd is unavailable, and decides again afterwards', async () => {
  const apiServer = await etcd.clientFiles('apiserver');
  const live = await cluster.addNode('w2');
  await member.freeze();
  try {
    expect(await ask(kubeletOf('w2', idOf(live)), apiServer)).toMatchObject({ status: 500 });
  } finally {
    member.thaw();
  }
  await untilServing(await etcd.connect('root', member.endpoint));
  expect(await ask(kubeletOf('w2', idOf(live)), apiServer)).toMatchObject({ status: 200, denied: false });
}, 20_000);
