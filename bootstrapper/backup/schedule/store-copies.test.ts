import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { remove } from '../../../internal/etcd/index.ts';
import { DiskStreams } from '../../../internal/file/index.ts';
import { currentValue } from '../../../internal/event/index.ts';
import { KubeError } from '../../../internal/kube/index.ts';
import {
  FAKE_ACCESS,
  FAKE_BUCKET,
  FakeObjectStore,
  refuse,
} from '../../../internal/objectstore/fake-object-store.ts';
import { BACKUP_COPIES_PREFIX, records } from '../../../internal/records/index.ts';
import { closeOpened, FakeClock, opened, superviseForTest } from '../../../internal/testing/index.ts';
import { backupCopyWorker } from './copy-worker.ts';
import { createMachine, FakeCluster, owner } from './fake-cluster.ts';
import { readStoreCredentials } from './store-credentials.ts';

const WAIT_MS = 20_000;
const signal = new AbortController().signal;
const machine = createMachine();
const nameOf = (seq: number): string => `${String(seq).padStart(8, '0')}-20270115T080000000Z.backup`;
const keyOf = (seq: number): string => `blue/c0ffee/${machine.nodeId}/${nameOf(seq)}`;

let cluster: FakeCluster;
let store: FakeObjectStore;
/** Where the node keeps its backups. */
let kept: string;
/** The content of the Secret; undefined: there is none. */
let secret: string | undefined;

beforeEach(async () => {
  cluster = new FakeCluster(new FakeClock(1_800_000_000_000));
  await cluster.create([machine.nodeId]);
  store = opened(await new FakeObjectStore().start());
  kept = await mkdtemp(join(tmpdir(), 'store-copies-'));
  secret = fileOf(FAKE_ACCESS.secretAccessKey);
});
afterEach(async () => {
  await closeOpened();
  await rm(kept, { recursive: true, force: true });
});

function fileOf(secretAccessKey: string): string {
  const { accessKeyId } = FAKE_ACCESS;
  return `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`;
}

/** A proved backup on the node, recorded. */
async function take(seq: number): Promise<void> {
  const bytes = Buffer.from(`backup ${seq}`);
  await writeFile(join(kept, nameOf(seq)), bytes);
  const record = records.backup.put(records.backup.key(String(seq)), {
    ...{ version: 1, seq, nodeId: machine.nodeId, name: nameOf(seq), takenMs: seq, provedMs: seq, epoch: 2 },
    ...{ sha256: createHash('sha256').update(bytes).digest('hex'), sizeBytes: bytes.length },
  });
  await cluster.records.commit({ when: [], then: [record] }, { signal });
}

/** The node loses a backup, or deletes it. */
async function lose(seq: number): Promise<void> {
  await cluster.records.commit({ when: [], then: [remove(records.backup.key(String(seq)))] }, { signal });
}

function schedule(keep = 2, nodeIds = [machine.nodeId]): Promise<void> {
  const { endpoint } = store;
  const copyToStore = { endpoint, region: 'us-east-1', bucket: FAKE_BUCKET, prefix: 'blue' };
  return cluster.schedule(nodeIds, { copyToStore, keep });
}

function run(): void {
  const getText = (path: string): Promise<string> => {
    if (secret === undefined) return Promise.reject(new KubeError('kube-not-found', path));
    const data = { credentials: Buffer.from(secret).toString('base64') };
    return Promise.resolve(JSON.stringify({ kind: 'Secret', data }));
  };
  opened(
    superviseForTest(
      backupCopyWorker(async () => ({
        ...{ files: cluster.files, clock: cluster.clock, clusterId: 'c0ffee', ownerKeys: [owner] },
        ...{ newestSchedule: '/schedule.json', nodeId: machine.nodeId, ring: { kept } },
        commands: { run: () => Promise.reject(new Error('no program is needed')) },
        writes: cluster.published,
        streams: new DiskStreams(),
        stateEtcd: () => cluster.etcd,
        readStoreCredentials: (child) => readStoreCredentials({ getText }, child),
      })),
      { clock: cluster.clock },
    ),
  );
}

async function copies() {
  const { entries } = await cluster.records.list(BACKUP_COPIES_PREFIX, { signal });
  return entries.map(({ key, value }) => records.backupCopies.decode(key, value))[0];
}

/** Advances the clock until the condition holds. The requests go over real sockets, which take real time. */
async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const endMs = Date.now() + WAIT_MS; Date.now() < endMs;) {
    if (await holds()) return;
    await cluster.clock.advance(1_000);
    await delay(1);
  }
  throw new Error(`not reached: ${JSON.stringify(await copies())}`);
}

const has =
  (...seqs: readonly number[]) =>
  async (): Promise<boolean> => {
    const found = await copies();
    return found?.failure === undefined && found?.names.join() === seqs.map(nameOf).join();
  };
/** What the metrics of the node tell. */
const published = () => currentValue(cluster.published.backupCopies);
const failsWith = (code: string) => async (): Promise<boolean> => (await copies())?.failure?.code === code;
const stored = (): readonly string[] => [...store.objects.keys()].toSorted();
const puts = (): readonly string[] => store.requests.filter((each) => each.startsWith('PUT'));

describe('StoreCopies', () => {
  test('uploads the proved backups of this node, byte for byte, and each of them only once', async () => {
    for (const seq of [1, 2]) await take(seq);
    await schedule();
    run();
    await until(has(1, 2));
    await cluster.clock.advance(90_000);
    await until(() => store.requests.filter((each) => each === 'GET ').length > 3);
    expect(stored()).toEqual([keyOf(1), keyOf(2)]);
    expect(store.objects.get(keyOf(1))?.toString()).toBe('backup 1');
    expect(puts()).toHaveLength(2);
  });

  test('deletes older copies only after the newer one was read back, and deletes no objects of others', async () => {
    for (const seq of [1, 2]) await take(seq);
    const others = [`blue/c0ffee/node-other/${nameOf(1)}`, `blue/c0ffee/${machine.nodeId}/notes.txt`];
    for (const key of others) store.objects.set(key, Buffer.from('not ours'));
    await schedule();
    run();
    await until(has(1, 2));
    await lose(1);
    store.store = () => Buffer.alloc(0); // a store that loses what it has accepted
    await take(3);
    await until(failsWith('objectstore-differs'));
    expect(stored()).toEqual([...others, keyOf(1), keyOf(2)].toSorted());
    store.store = (bytes) => bytes;
    await until(has(2, 3));
    expect(stored()).toEqual([...others, keyOf(2), keyOf(3)].toSorted());
  });

  test('records that a store does not respond, keeps the record of the copies, and uploads the rest once the store responds', async () => {
    await take(1);
    await schedule(3);
    run();
    await until(has(1));
    store.fault = (_, response) => {
      response.destroy();
      return true;
    };
    for (const seq of [2, 3]) await take(seq);
    await until(failsWith('objectstore-unreachable'));
    expect((await copies())?.names).toEqual([nameOf(1)]);
    expect(published()).toEqual({ isFailing: true });
    store.fault = () => false;
    await until(has(1, 2, 3));
    expect(published()).toEqual({ isFailing: false });
    expect(stored()).toEqual([keyOf(1), keyOf(2), keyOf(3)]);
  });

  test('records that the access key is wrong without quoting the key, and uploads once the Secret is corrected', async () => {
    secret = fileOf('a-wrong-secret');
    await take(1);
    await schedule();
    run();
    await until(failsWith('objectstore-refused'));
    expect(JSON.stringify(await copies())).not.toMatch(/a-wrong-secret|wJalr/);
    secret = fileOf(FAKE_ACCESS.secretAccessKey);
    await until(has(1));
  });

  test.each([
    { name: 'there is no Secret', content: undefined },
    { name: 'the Secret has the wrong format', content: 'hunter2' },
  ])('sends no request while $name', async ({ content }) => {
    secret = content;
    await take(1);
    await schedule();
    run();
    await until(failsWith('objectstore-credentials-invalid'));
    expect(JSON.stringify(await copies())).not.toContain('hunter2');
    expect(store.requests).toEqual([]);
  });

  test('deletes nothing while the bucket is full', async () => {
    await take(1);
    await schedule(1);
    run();
    await until(has(1));
    await lose(1);
    store.fault = ({ method }, response) => {
      if (method === 'PUT') refuse(response, 507, 'InsufficientStorage');
      return method === 'PUT';
    };
    await take(2);
    await until(failsWith('objectstore-full'));
    expect(stored()).toEqual([keyOf(1)]);
  });

  test('does not repeat a complete upload that an interruption kept from being recorded', async () => {
    await take(1);
    store.objects.set(keyOf(1), Buffer.from('backup 1'));
    await schedule();
    run();
    await until(has(1));
    expect(puts()).toEqual([]);
  });

  test.each([
    { name: 'an empty object', bytes: '' },
    { name: 'an object with other bytes', bytes: 'backup X' },
  ])('repeats an upload if an interruption left $name', async ({ bytes }) => {
    await take(1);
    store.objects.set(keyOf(1), Buffer.from(bytes));
    await schedule();
    run();
    await until(has(1));
    expect(store.objects.get(keyOf(1))?.toString()).toBe('backup 1');
  });

  test('uploads a copy again if it was deleted or truncated later', async () => {
    for (const seq of [1, 2]) await take(seq);
    await schedule();
    run();
    await until(has(1, 2));
    store.objects.delete(keyOf(1));
    store.objects.set(keyOf(2), Buffer.alloc(0));
    await until(() => stored().length === 2 && store.objects.get(keyOf(2))?.toString() === 'backup 2');
    expect(store.objects.get(keyOf(1))?.toString()).toBe('backup 1');
  });

  test('keeps the copies when the node has lost its own backups', async () => {
    for (const seq of [1, 2]) await take(seq);
    await schedule();
    run();
    await until(has(1, 2));
    for (const seq of [1, 2]) await lose(seq);
    await take(3);
    await until(has(2, 3));
    expect(stored()).toEqual([keyOf(2), keyOf(3)]);
  });

  test('records no failure if the access key has no permission to delete: old copies stay', async () => {
    for (const seq of [1, 2]) await take(seq);
    store.fault = ({ method }, response) => {
      if (method === 'DELETE') refuse(response, 403, 'AccessDenied');
      return method === 'DELETE';
    };
    await schedule();
    run();
    await until(has(1, 2));
    await lose(1);
    await take(3);
    const failures = new Set<string | undefined>();
    await until(async () => {
      failures.add((await copies())?.failure?.code);
      return has(2, 3)();
    });
    expect([...failures]).toEqual([undefined]);
    expect(stored()).toEqual([keyOf(1), keyOf(2), keyOf(3)]);
  });

  test('asks a store that refuses to delete once for each new copy, however many old copies there are', async () => {
    for (const seq of [1, 2, 3]) store.objects.set(keyOf(seq), Buffer.from('old'));
    store.fault = ({ method }, response) => {
      if (method === 'DELETE') refuse(response, 403, 'AccessDenied');
      return method === 'DELETE';
    };
    await take(4);
    await schedule(1);
    run();
    await until(has(4));
    const lists = (): number => store.requests.filter((each) => each === 'GET ').length;
    const before = lists();
    await until(() => lists() > before + 2);
    expect(store.requests.filter((each) => each.startsWith('DELETE'))).toHaveLength(1);
  });

  test('deletes the records of the copies of removed nodes and of former control planes', async () => {
    const [former, removed] = [createMachine(), createMachine()];
    const put = ({ nodeId }: typeof machine) =>
      records.backupCopies.put(records.backupCopies.key(nodeId), {
        ...{ version: 1, nodeId, directory: 's3://x', names: [] },
        failure: { timeMs: 1, code: 'objectstore-unreachable', message: 'away' },
      });
    const worker = records.node.put(records.node.key(former.nodeId), {
      ...{ version: 1, nodeId: former.nodeId, name: 'former', pubKey: '', state: 'UP', createdMs: 1 },
      ...{ roles: ['KubernetesWorker'], labels: {} },
    });
    await cluster.records.commit({ when: [], then: [worker, put(former), put(removed)] }, { signal });
    await take(1);
    await schedule(2, [machine.nodeId, former.nodeId, removed.nodeId]);
    run();
    await until(async () => {
      const { entries } = await cluster.records.list(BACKUP_COPIES_PREFIX, { signal });
      return entries.length === 1 && (await has(1)());
    });
  });

  test('deletes the record of the copies, but no copy, when a new schedule names no store', async () => {
    await take(1);
    await schedule();
    run();
    await until(has(1));
    await cluster.schedule([machine.nodeId], {});
    await until(async () => (await copies()) === undefined);
    expect(published()).toBeUndefined();
    expect(stored()).toEqual([keyOf(1)]);
  });
});
