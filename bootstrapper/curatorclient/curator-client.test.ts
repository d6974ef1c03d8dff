import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { BlobStore } from '../../internal/bundle/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { currentValue, EventValue } from '../../internal/event/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { type MemberIdentity, verifyMemberCertificate } from '../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../internal/rpc/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  MemoryEtcd,
  opened,
  TestCluster,
  type TestPeer,
} from '../../internal/testing/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Membership } from '../membership/index.ts';
import { fetchBlob } from '../components/index.ts';
import { CuratorClient } from './curator-client.ts';
import type { ClusterDirectory, ControlPlaneNode } from './directory.ts';

const signal = AbortSignal.timeout(30_000);
const clock = new SystemClock();
const { log, records: lines } = createMemoryLogger();
let directoryPath: string;
let cluster: TestCluster;
let own: TestPeer;
const values = {
  clusterMembership: new EventValue<Membership | undefined>(),
  clusterDirectory: new EventValue<ClusterDirectory | undefined>(),
  clusterRelays: new EventValue<readonly string[] | undefined>(),
};
let port: number;

beforeEach(async () => {
  directoryPath = await mkdtemp(join(tmpdir(), 'cluster-curators-'));
  cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
  own = await cluster.addNode('own');
  port = 20_000 + Math.floor(Math.random() * 30_000);
});

afterEach(async () => {
  await closeOpened();
  await rm(directoryPath, { recursive: true });
});

/**
 * Starts a curator on its own address; all curators use the same port. The curator answers with its address.
 */
async function startCurator(
  host: string,
  over: Partial<FakeBehaviour> = {},
): Promise<ControlPlaneNode & AsyncDisposable> {
  const { trust } = cluster;
  const peer = await cluster.addNode(host, { roles: over.isWorker === true ? [] : ['ConsensusMember'] });
  const curator = new RpcServer<MemberIdentity>({
    clock,
    upgrade: tlsServerUpgrade({
      clock,
      identity: peer.tls,
      accept: (certificate) => verifyMemberCertificate(certificate, trust),
    }),
    services: [
      implement(Curator, {
        checkHealth: async () => {
          if (over.disowns?.() === true)
            throw new CodedError(refusals, 'curator-not-member', 'admitting a node');
          return { nodeId: host, epoch: 1n };
        },
      } as never),
      implement(Distribution, {
        fetchBlob: over.fetchBlob ?? (() => Readable.from([])),
        fetchCollateral: () => Promise.resolve({}),
        fetchConfiguration: () => Promise.resolve({}),
        fetchKeys: () => Promise.resolve({}),
        fetchRemovals: () => Promise.resolve({}),
        reportRemovals: () => Promise.resolve({}),
        watchDirectory: async function* (_: unknown, call: { signal: AbortSignal }) {
          yield { epoch: 1n, controlPlanes: [] };
          await new Promise((_resolve, reject) =>
            call.signal.addEventListener('abort', () => reject(new Error('gone'))),
          );
        },
      }),
    ],
    disclose: 'chain',
    log,
  });
  await curator.listen(host, port);
  opened(curator);
  const nodeId = peer.identity.kind === 'node' ? peer.identity.nodeId : '';
  return {
    nodeId,
    host,
    curator: true,
    apiServer: true,
    [Symbol.asyncDispose]: () => curator[Symbol.asyncDispose](),
  };
}

const refusals = {
  'curator-not-member': { fault: 'operator', exit: 'refused', retryable: false, meaning: '-', fix: '-' },
} as const;

interface FakeBehaviour {
  /** Whether the curator has no record of the caller at this call. */
  readonly disowns: () => boolean;
  /** Whether this member is a worker, which answers although it runs no control plane. */
  readonly isWorker: boolean;
  readonly fetchBlob: (request: { readonly offset: bigint }) => AsyncIterable<{ readonly data: Uint8Array }>;
}

function createClient(
  directory: readonly ControlPlaneNode[],
  staticHosts: readonly string[] = [],
): CuratorClient {
  values.clusterMembership.set({
    clusterId: cluster.clusterId,
    clusterName: 'test',
    nodeId: own.identity.kind === 'node' ? own.identity.nodeId : '',
    nodeName: 'own',
    nodeAddress: '127.0.0.1',
    nodeCertPem: own.tls.certPem,
    clusterCaPem: cluster.trust.caPem,
    epoch: 1,
    directory: directory.map(({ nodeId, host }) => ({ nodeId, host })),
  });
  values.clusterDirectory.set(undefined);
  values.clusterRelays.set(undefined);
  const client = new CuratorClient({
    reads: values,
    keyPem: own.tls.keyPem,
    clock,
    log,
    port,
    relayPort: port + 1,
    staticHosts: () => staticHosts,
    random: () => 0,
    confirmRemovalMs: 1,
  });
  opened(client);
  return client;
}

/** Starts a worker's relay that forwards connections to the curator at this host. */
async function relayTo(host: string): Promise<{ readonly host: string } & AsyncDisposable> {
  const server = createServer((client) => {
    const onward = connect(port, host);
    for (const socket of [client, onward]) socket.on('error', () => undefined);
    client.once('close', () => onward.destroy());
    onward.once('close', () => client.destroy());
    client.pipe(onward).pipe(client);
  });
  const at = '127.0.0.70';
  await new Promise<void>((resolve) => server.listen(port + 1, at, resolve));
  return { host: at, [Symbol.asyncDispose]: async () => void server.close() };
}

const ask = (client: CuratorClient): Promise<string> =>
  client.use(
    async ({ client: curator }, child) => (await curator.checkHealth({}, { signal: child })).nodeId,
    {
      signal,
    },
  );

describe('CuratorClient', () => {
  test.each([
    { name: 'has ended', ends: () => Promise.resolve() },
    { name: 'has failed', ends: () => Promise.reject(new Error('one of two')) },
  ])('leaves no call and connection open after work that $name', async ({ ends }) => {
    const client = createClient([await startCurator('127.0.0.61')]);
    let left: AbortSignal | undefined;
    const work = client.use(
      (_, child) => {
        left = child;
        return ends();
      },
      { signal },
    );
    await work.catch(() => undefined);
    expect(left?.aborted).toBe(true);
  });

  test('dials no curator, not even a configured address, before this node is a member', async () => {
    let dialed = 0;
    const listener = createServer((socket) => (dialed++, socket.destroy()));
    await new Promise<void>((resolve) => listener.listen(port, '127.0.0.9', resolve));
    try {
      const a = await startCurator('127.0.0.2');
      const client = createClient([a], ['127.0.0.9']);
      const membership = values.clusterMembership.peek();
      values.clusterMembership.set(undefined);
      await expect(ask(client)).rejects.toMatchObject({ code: 'curatorclient-no-curator' });
      expect(dialed).toBe(0);
      values.clusterMembership.set(membership.set ? membership.value : undefined);
      expect(await ask(client)).toBe('127.0.0.2');
    } finally {
      await new Promise((resolve) => listener.close(resolve));
    }
  });

  test('continues at the next curator when one is dead, and remembers the dead one', async () => {
    const [a, b] = [await startCurator('127.0.0.2'), await startCurator('127.0.0.3')];
    const client = createClient([a, b]);
    expect(await ask(client)).toBe('127.0.0.2');
    await a[Symbol.asyncDispose]();
    const failures = (): number =>
      lines.filter(({ message }) => message === 'curator failed, trying the next one').length;
    const before = failures();
    const startedMs = performance.now();
    expect(await ask(client)).toBe('127.0.0.3');
    expect(await ask(client)).toBe('127.0.0.3');
    expect(failures()).toBe(before + 1); // the second call did not ask the dead one again
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });

  test('ends calls to a curator that left the list of control planes, and uses a curator that was added', async () => {
    const [a, b] = [await startCurator('127.0.0.2'), await startCurator('127.0.0.3')];
    const client = createClient([a]);
    const answers: string[] = [];
    const watching = client.use(
      async ({ endpoint, of }, child) => {
        for await (const _ of of(Distribution).watchDirectory({}, { signal: child })) {
          answers.push(endpoint);
          if (answers.length > 1) return;
          values.clusterDirectory.set([b]);
        }
      },
      { signal },
    );
    await watching;
    expect(answers).toEqual([`127.0.0.2:${port}`, `127.0.0.3:${port}`]);
    expect(await ask(client)).toBe('127.0.0.3');
  });

  test.each([
    { name: 'that this node cannot verify', believes: 'none' },
    { name: 'and close the connection because of this node’s certificate', believes: 'both' },
  ])(
    'reports that a ticket is needed when all curators have certificates of another CA $name',
    async ({ believes }) => {
      const first = cluster;
      const ofFirst = own;
      cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
      const a = await startCurator('127.0.0.2');
      const second = cluster;
      [cluster, own] = [first, ofFirst];
      const client = createClient([a]);
      expect(currentValue(client.needsTicket)).toBe(false);
      const membership = currentValue(values.clusterMembership);
      if (membership === undefined) throw new TypeError('no membership');
      if (believes === 'both')
        values.clusterMembership.set({
          ...membership,
          clusterCaPem: `${first.trust.caPem}\n${second.trust.caPem}`,
        });
      await expect(ask(client)).rejects.toThrow();
      expect(currentValue(client.needsTicket)).toBe(true);
      values.clusterMembership.set({ ...membership });
      expect(currentValue(client.needsTicket)).toBe(false);
    },
  );

  test('needs no ticket when one curator works, or when no curator answers', async () => {
    const a = await startCurator('127.0.0.2');
    const first = cluster;
    cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
    const other = await startCurator('127.0.0.3');
    cluster = first;
    const client = createClient([other, a]);
    expect(await ask(client)).toBe('127.0.0.2');
    await a[Symbol.asyncDispose]();
    expect(currentValue(client.needsTicket)).toBe(false);
    const lonely = createClient([a]);
    await expect(ask(lonely)).rejects.toThrow();
    expect(currentValue(lonely.needsTicket)).toBe(false);
  });

  test('prefers its own curator, except for data that its own curator cannot have', async () => {
    const [a, b] = [await startCurator('127.0.0.2'), await startCurator('127.0.0.3')];
    const client = createClient([a, b]);
    const mine = values.clusterMembership.peek();
    if (!mine.set || mine.value === undefined) throw new Error('no membership');
    values.clusterMembership.set({ ...mine.value, nodeId: b.nodeId });
    expect(await ask(client)).toBe('127.0.0.3');
    const other = await client.use(({ endpoint }) => Promise.resolve(endpoint), { signal, exceptOwn: true });
    expect(other).toBe(`127.0.0.2:${port}`);
  });

  test('refuses another node at the address of a curator, refuses a curator of another cluster, and uses the next curator', async () => {
    const [a, b] = [await startCurator('127.0.0.2'), await startCurator('127.0.0.3')];
    const client = createClient([{ ...a, nodeId: 'node-of-somebody-else' }, b]);
    expect(await ask(client)).toBe('127.0.0.3');
    const lonely = createClient([{ ...a, nodeId: 'node-of-somebody-else' }]);
    await expect(ask(lonely)).rejects.toEqual(expect.objectContaining({ code: 'curatorclient-other-node' }));
    cluster = await TestCluster.create(new MemoryEtcd(), () => clock.nowMs());
    const foreign = createClient([a]);
    await expect(ask(foreign)).rejects.toEqual(expect.objectContaining({ code: 'pki-untrusted' }));
  });

  test('reports that the node is removed when no curator that answers has a record of its key', async () => {
    const [a, b] = [
      await startCurator('127.0.0.2', { disowns: () => true }),
      await startCurator('127.0.0.3', { disowns: () => true }),
    ];
    const client = createClient([a, b, { ...b, host: '127.0.0.9', nodeId: 'node-off' }]);
    expect(client.removed.peek()).toEqual({ set: true, value: false });
    await expect(ask(client)).rejects.toMatchObject({
      code: 'curatorclient-not-member',
      cause: { code: 'curator-not-member' },
    });
    expect(client.removed.peek()).toEqual({ set: true, value: true });
    expect(lines.filter(({ level }) => level === 'error')).toMatchObject([
      { message: 'this node was removed: no curator has a record of its key' },
    ]);
  });

  test('does not report the node as removed when only one curator has no record of it and another curator has one', async () => {
    const [a, b] = [
      await startCurator('127.0.0.2', { disowns: () => true }),
      await startCurator('127.0.0.3'),
    ];
    const client = createClient([a, b]);
    expect(await ask(client)).toBe('127.0.0.3');
    expect(client.removed.peek()).toEqual({ set: true, value: false });
  });

  test('does not report the node as removed when the only curator has no record of it for a moment', async () => {
    let calls = 0;
    const client = createClient([await startCurator('127.0.0.2', { disowns: () => ++calls === 1 })]);
    expect(await ask(client)).toBe('127.0.0.2');
    expect(client.removed.peek()).toEqual({ set: true, value: false });
  });

  test('calls configured addresses when no curator in the list of control planes answers', async () => {
    const b = await startCurator('127.0.0.3');
    const gone = { ...b, host: '127.0.0.9', nodeId: 'node-gone' };
    expect(await ask(createClient([gone], ['127.0.0.3']))).toBe('127.0.0.3');
    await expect(ask(createClient([]))).rejects.toEqual(
      expect.objectContaining({ code: 'curatorclient-no-curator' }),
    );
  });

  test('calls a configured address even if the list of curators gives that address to another node', async () => {
    const b = await startCurator('127.0.0.3');
    expect(await ask(createClient([{ ...b, nodeId: 'node-gone' }], ['127.0.0.3']))).toBe('127.0.0.3');
  });

  test('refuses a worker at a configured address, although its certificate is valid', async () => {
    await startCurator('127.0.0.3', { isWorker: true });
    await expect(ask(createClient([], ['127.0.0.3']))).rejects.toMatchObject({ code: 'pki-untrusted' });
  });

  test('calls a relay last, and then switches to a curator whose address it received through the relay', async () => {
    const [b, c] = [await startCurator('127.0.0.3'), await startCurator('127.0.0.4')];
    await using relay = await relayTo('127.0.0.3');
    const client = createClient([{ ...b, host: '127.0.0.9', nodeId: 'node-gone' }], ['127.0.0.8']);
    // The relay on this node knows the same curators as this node, so it is of no use. Each round tries only
    // one relay or configured address.
    values.clusterRelays.set(['127.0.0.1', relay.host]);
    await expect(ask(client)).rejects.toMatchObject({ code: 'rpc-unreachable' });
    const answers: string[] = [];
    await client.use(
      async ({ endpoint, of }, child) => {
        for await (const _ of of(Distribution).watchDirectory({}, { signal: child })) {
          answers.push(endpoint);
          if (answers.length > 1) return;
          values.clusterDirectory.set([c]);
        }
      },
      { signal },
    );
    expect(answers).toEqual([`${relay.host}:${port + 1}`, `127.0.0.4:${port}`]);
  });

  test('refuses a worker behind a relay, and the relay itself', async () => {
    await startCurator('127.0.0.3', { isWorker: true });
    await using relay = await relayTo('127.0.0.3');
    const client = createClient([]);
    values.clusterRelays.set([relay.host]);
    await expect(ask(client)).rejects.toMatchObject({ code: 'pki-untrusted' });
  });
});

test('fetchBlob() resumes at the byte at which a source stopped, stops using a source with wrong data, and keeps no wrong byte', async () => {
  const bytes = new Uint8Array(randomBytes(600_000));
  const files = new DiskFiles();
  const streams = new DiskStreams();
  const made = new BlobStore({ files, streams, roots: [join(directoryPath, 'made')] });
  const { sha256, sizeBytes } = await made.put(Readable.from([bytes]), { signal });
  const offsets: bigint[] = [];
  const torn = await startCurator('127.0.0.2', {
    fetchBlob: async function* ({ offset }) {
      offsets.push(offset);
      yield { data: bytes.subarray(0, 200_000) };
      throw new Error('the machine went');
    },
  });
  const liar = await startCurator('127.0.0.3', {
    fetchBlob: async function* ({ offset }) {
      offsets.push(offset);
      yield { data: new Uint8Array(sizeBytes - Number(offset)) };
    },
  });
  const honest = await startCurator('127.0.0.4', {
    fetchBlob: async function* ({ offset }) {
      offsets.push(offset);
      yield { data: bytes.subarray(Number(offset)) };
    },
  });
  const store = new BlobStore({ files, streams, roots: [join(directoryPath, 'store')] });
  const blob = { name: 'kubelet', sha256, sizeBytes };
  await fetchBlob({ store, curators: createClient([torn, liar, honest]), clock, log }, blob, signal);
  expect(offsets).toEqual([0n, 200_000n, 0n]);
  await store.verify(blob, signal);
});
