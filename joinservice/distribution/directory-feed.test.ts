import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { BlobStore } from '../../internal/bundle/index.ts';
import { yieldToEventLoop } from '../../internal/clock/index.ts';
import { EtcdError, put, remove } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { CONFIGURATION_KEY, KEYS_KEY, records } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  MemoryEtcd,
  MemoryFiles,
  settle,
  TestCluster,
} from '../../internal/testing/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { Curator } from '../curator/index.ts';
import { NodeStatusSchema } from '../curatorproto/gen/curator_pb.js';
import {
  FetchBlobRequestSchema,
  FetchConfigurationRequestSchema,
  FetchKeysRequestSchema,
  FetchRemovalsRequestSchema,
  ReportRemovalsRequestSchema,
  WatchDirectoryRequestSchema,
  type ReportRemovalsRequest,
} from '../curatorproto/gen/distribution_pb.js';
import { DirectoryFeed, type Directory } from './directory-feed.ts';
import { distributionHandlers } from './distribution-handlers.ts';

const stage = new EventValue<string>();
stage.set('');
const keys = { value: stage };
const sha256 = new EventValue<string>();
sha256.set('');
const configuration = { value: sha256 };
const removedHash = new EventValue<string>();
removedHash.set('');
const REFUSED = { identity: `tpm-ek:${'1'.repeat(64)}`, nodeId: `node-${'1'.repeat(32)}`, name: 'n1' };
const removals = {
  value: removedHash,
  fetch: () => Promise.resolve({ epoch: 2, sha256: 'ab', machines: [REFUSED] }),
};
const takeReport = ({ machines }: ReportRemovalsRequest) => Promise.resolve(machines);
const collateral = { fetch: () => Promise.reject(new Error('not part of this test')) };
const rest = { keys, configuration, removals, takeReport, collateral };

let stop: AbortController;
const runs: Promise<unknown>[] = [];
beforeEach(() => {
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.allSettled(runs);
});

test('the directory lists control planes with an address, drops removed ones, and sends nothing when other nodes change', async () => {
  const etcd = new MemoryEtcd();
  const clock = new FakeClock();
  const cluster = await TestCluster.create(etcd, () => clock.nowMs());
  const { signal } = stop;
  const facts = {
    certificates: [],
    etcdStatus: () => Promise.reject(new Error('nobody asks')),
    etcdMembers: () => Promise.reject(new Error('nobody asks')),
  };
  const ownerDocs = new FakeOwner({ clock }).ownerDocs(etcd);
  const curator = new Curator({ etcd, ownerDocs, nodeId: 'n', facts, clock, log: createMemoryLogger().log });
  const feed = new DirectoryFeed({ nodes: curator.nodes, clock });
  runs.push(
    curator.run(signal).catch(() => 0),
    feed.run(signal).catch(() => 0),
  );
  const handlers = distributionHandlers({ ...rest, etcd, feed, blobs: undefined });
  const caller = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const watch = handlers
    .watchDirectory(create(WatchDirectoryRequestSchema), { peer: caller, signal })
    [Symbol.asyncIterator]();
  const told: unknown[] = [];
  let failure: unknown;
  const reading = (async () => {
    for (;;) {
      const next = await watch.next();
      if (next.done === true) return;
      const { controlPlanes = [], relays = [] } = next.value;
      told.push([...controlPlanes.map(({ name, address }) => `${name}@${address}`), ...relays]);
    }
  })().catch((error: unknown) => (failure = error));
  runs.push(reading);

  const put1 = async (name: string, roles: readonly Role[], address?: string): Promise<string> => {
    const { identity } = await cluster.addNode(name, { roles: [...roles] });
    const nodeId = identity.kind === 'node' ? identity.nodeId : '';
    if (address !== undefined) await say(nodeId, { address });
    return nodeId;
  };
  const say = async (nodeId: string, status: MessageInitShape<typeof NodeStatusSchema>): Promise<void> => {
    const said = Buffer.from(toBinary(NodeStatusSchema, create(NodeStatusSchema, status))).toString('base64');
    const value = records.status.encode({ version: 1, status: said, updatedMs: 1 });
    await etcd.commit({ when: [], then: [put(records.status.key(nodeId), value)] }, { signal });
  };

  await settle();
  expect(told).toEqual([]); // the feed never sends an empty directory
  const [a, , worker] = [
    await put1('a', ['ConsensusMember', 'KubernetesController'], '198.51.100.1'),
    await put1('silent', ['ConsensusMember']),
    await put1('worker', ['KubernetesWorker'], '198.51.100.9'),
  ];
  await settle();
  expect(told.at(-1)).toEqual(['a@198.51.100.1', '198.51.100.9']);
  await say(worker, { address: '198.51.100.10' });
  await settle();
  expect(told.at(-1)).toEqual(['a@198.51.100.1', '198.51.100.10']);
  const before = told.length;
  await say(worker, { address: '198.51.100.10', agentVersion: '2' });
  await settle();
  expect(told).toHaveLength(before);
  const b = await put1('b', ['ConsensusMember'], '198.51.100.2');
  await settle();
  const workers = '198.51.100.10';
  expect((told.at(-1) as string[]).toSorted()).toEqual([workers, 'a@198.51.100.1', 'b@198.51.100.2']);
  await etcd.commit({ when: [], then: [remove(records.node.key(a))] }, { signal });
  await settle();
  expect(told.at(-1)).toEqual(['b@198.51.100.2', workers]);
  await etcd.commit({ when: [], then: [remove(records.node.key(worker))] }, { signal });
  await settle();
  expect(told.at(-1)).toEqual(['b@198.51.100.2']);
  const count = told.length;
  await etcd.commit({ when: [], then: [remove(records.node.key(b))] }, { signal });
  await settle();
  expect(told).toHaveLength(count);
  etcd.setOutage(new EtcdError('etcd-unavailable', 'testing'));
  await settle();
  expect([(failure as EtcdError).code, told.length]).toEqual(['etcd-unavailable', count]);
});

test('fetchBlob() refuses an invalid hash, and fails if the node has no blob store', async () => {
  const clock = new FakeClock();
  const etcd = new MemoryEtcd();
  const feed = new DirectoryFeed({
    nodes: { subscribe: () => Promise.reject(new Error('nobody follows')) },
    clock,
  });
  const caller = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const { signal } = new AbortController();
  const blobs = new BlobStore({ files: new MemoryFiles(), streams: new DiskStreams(), roots: ['/store'] });
  const table = [
    { blobs, sha256: '../../etc/shadow', offset: 0n, code: 'distribution-request-invalid' },
    { blobs, sha256: 'ab'.repeat(32), offset: -1n, code: 'distribution-request-invalid' },
    { blobs, sha256: 'ab'.repeat(32), offset: 0n, code: 'distribution-blob-missing' },
    { blobs: undefined, sha256: 'ab'.repeat(32), offset: 0n, code: 'distribution-blob-missing' },
  ];
  for (const { blobs: store, sha256, offset, code } of table) {
    const { fetchBlob } = distributionHandlers({ ...rest, etcd, feed, blobs: store });
    const wire = create(FetchBlobRequestSchema, { sha256, offset });
    const answer = fetchBlob(wire, { peer: caller, signal })[Symbol.asyncIterator]();
    await expect(answer.next()).rejects.toEqual(expect.objectContaining({ code }));
  }
});

test('watchDirectory() wakes a few watchers at a time until all have the new directory', async () => {
  const etcd = new MemoryEtcd();
  await TestCluster.create(etcd, () => 0);
  const directory = new EventValue<Directory>();
  const handlers = distributionHandlers({ ...rest, etcd, feed: { directory }, blobs: undefined });
  const { signal } = stop;
  const call = {
    peer: { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const,
    signal,
    address: '192.0.2.1',
  };
  const told: string[] = [];
  const follow = async (): Promise<void> => {
    const messages = handlers.watchDirectory(create(WatchDirectoryRequestSchema), call);
    for await (const { relays } of messages) told.push(...(relays ?? []));
  };
  for (let watcher = 0; watcher < 200; watcher++) runs.push(follow());
  await settle();
  const entry = { nodeId: 'a', name: 'a', address: '192.0.2.1', curatorEndpoint: '192.0.2.1:9091' };
  const entries = [{ ...entry, apiServer: true }];
  directory.set({ kind: 'known', entries, relays: ['192.0.2.2'] });
  await yieldToEventLoop();
  expect(told.length).toBeGreaterThan(0);
  expect(told.length).toBeLessThan(200);
  directory.set({ kind: 'known', entries, relays: ['192.0.2.3'] });
  await settle();
  expect(told.filter((address) => address === '192.0.2.3')).toHaveLength(200);
});

test('fetchKeys() sends the record and the owner documents with which machines verify the record', async () => {
  const etcd = new MemoryEtcd();
  const clock = new FakeClock();
  const owner = new FakeOwner({ clock });
  const feed = { directory: new EventValue<never>() };
  const { fetchKeys } = distributionHandlers({ ...rest, etcd, feed, blobs: undefined });
  const caller = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const fetched = () => fetchKeys(create(FetchKeysRequestSchema), { peer: caller, signal: stop.signal });
  expect(await fetched()).toEqual({});
  const record = Buffer.from('record');
  etcd.commitNow({ when: [], then: [put(KEYS_KEY, record)] });
  expect(await fetched()).toEqual({ record, ownerDocuments: [] });
  const base64 = Buffer.from(owner.pubKey).toString('base64');
  const owners = owner.sign('owners', { keys: [base64] });
  const signed = owner.sign('keys', { generation: 2, previous: {}, next: {} });
  for (const document of [signed, owners, owner.policy('x')]) await owner.record(etcd, document);
  expect(await fetched()).toEqual({ record, ownerDocuments: [owners, signed] });
});

test('fetchConfiguration() sends the configuration and the owner documents with which machines verify it', async () => {
  const etcd = new MemoryEtcd();
  const owner = new FakeOwner({ clock: new FakeClock() });
  const feed = { directory: new EventValue<never>() };
  const { fetchConfiguration } = distributionHandlers({ ...rest, etcd, feed, blobs: undefined });
  const caller = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const fetched = () =>
    fetchConfiguration(create(FetchConfigurationRequestSchema), { peer: caller, signal: stop.signal });
  expect(await fetched()).toEqual({});
  const document = Buffer.from('{}');
  const record = { version: 1, document: document.toString('base64'), updatedMs: 1, updatedBy: 'x' } as const;
  etcd.commitNow({ when: [], then: [records.configuration.put(CONFIGURATION_KEY, record)] });
  const owners = owner.sign('owners', { keys: [Buffer.from(owner.pubKey).toString('base64')] });
  const policy = owner.policy('{}');
  const keysDocument = owner.sign('keys', { generation: 2, previous: {}, next: {} });
  for (const each of [policy, owners, keysDocument]) await owner.record(etcd, each);
  expect(await fetched()).toEqual({ document: new Uint8Array(document), ownerDocuments: [owners, policy] });
});

test('watchDirectory() sends the hash of the removed machines again when it changes', async () => {
  const etcd = new MemoryEtcd();
  await TestCluster.create(etcd, () => 0);
  const directory = new EventValue<Directory>();
  const entry = { nodeId: 'a', name: 'a', address: '192.0.2.1', curatorEndpoint: '', apiServer: true };
  directory.set({ kind: 'known', entries: [entry], relays: [] });
  const value = new EventValue<string>();
  value.set('one');
  const handlers = distributionHandlers({
    ...{ ...rest, etcd, feed: { directory }, blobs: undefined },
    removals: { ...removals, value },
  });
  const caller = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const messages = handlers
    .watchDirectory(create(WatchDirectoryRequestSchema), { peer: caller, signal: stop.signal })
    [Symbol.asyncIterator]();
  expect((await messages.next()).value).toMatchObject({ removals: 'one' });
  value.set('two');
  expect((await messages.next()).value).toMatchObject({ removals: 'two' });
});

test('fetchRemovals() sends the machines that the cluster refuses, and reportRemovals() those that stay members', async () => {
  const etcd = new MemoryEtcd();
  const feed = { directory: new EventValue<never>() };
  const { fetchRemovals, reportRemovals } = distributionHandlers({ ...rest, etcd, feed, blobs: undefined });
  const peer = { kind: 'node', nodeId: 'x', name: 'x', addresses: [] } as const;
  const call = { peer, signal: stop.signal };
  const listed = await fetchRemovals(create(FetchRemovalsRequestSchema), call);
  expect(listed).toEqual({ epoch: 2n, sha256: 'ab', machines: [REFUSED] });
  const report = create(ReportRemovalsRequestSchema, { machines: [REFUSED] });
  expect((await reportRemovals(report, call)).unmerged).toMatchObject([REFUSED]);
});
