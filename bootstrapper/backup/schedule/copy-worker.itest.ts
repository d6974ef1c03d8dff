import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { remove } from '../../../internal/etcd/index.ts';
import { ExecaRunner, type CommandRunner } from '../../../internal/exec/index.ts';
import { DiskStreams } from '../../../internal/file/index.ts';
import { BACKUP_COPIES_PREFIX, records } from '../../../internal/records/index.ts';
import { closeOpened, FakeClock, opened, superviseForTest } from '../../../internal/testing/index.ts';
import { backupCopyWorker } from './copy-worker.ts';
import { createMachine, FakeCluster, owner } from './fake-cluster.ts';

const WAIT_MS = 20_000;
const signal = new AbortController().signal;
const programs = new ExecaRunner({ path: '/usr/bin:/bin' });
const machine = createMachine();
const nameOf = (seq: number): string => `${String(seq).padStart(8, '0')}-20270115T080000000Z.backup`;

let cluster: FakeCluster;
/** Where the node keeps its backups, and a directory on another file system. */
let kept: string;
let target: string;
/** Runs before each program of the worker. */
let before: (argv: readonly string[]) => Promise<void> | void;

beforeEach(async () => {
  cluster = new FakeCluster(new FakeClock(1_800_000_000_000));
  await cluster.create([machine.nodeId]);
  kept = await makeDirectory(tmpdir());
  target = await makeDirectory('/dev/shm');
  before = () => undefined;
  if ((await stat(kept)).dev === (await stat(target)).dev)
    throw new Error(`${kept} and ${target} have to be on two file systems`);
});
afterEach(async () => {
  await closeOpened();
  for (const path of made.splice(0)) await rm(path, { recursive: true, force: true });
});

/** Directories that the test deletes. */
const made: string[] = [];

async function makeDirectory(parent: string): Promise<string> {
  const path = await mkdtemp(join(parent, 'backup-copies-'));
  made.push(path);
  return path;
}

/** Puts a backup on the disk of the node, and its record into etcd. */
async function take(seq: number, isProved = true): Promise<void> {
  const bytes = Buffer.from(`backup ${seq}`);
  await writeFile(join(kept, nameOf(seq)), bytes);
  const record = records.backup.put(records.backup.key(String(seq)), {
    ...{ version: 1, seq, nodeId: machine.nodeId, name: nameOf(seq), takenMs: seq, epoch: 2 },
    ...{ sha256: createHash('sha256').update(bytes).digest('hex'), sizeBytes: bytes.length },
    ...(isProved ? { provedMs: seq } : {}),
  });
  await cluster.records.commit({ when: [], then: [record] }, { signal });
}

function run(): void {
  const commands: CommandRunner = {
    run: async (command) => {
      await before(command.argv);
      return programs.run(command);
    },
  };
  opened(
    superviseForTest(
      backupCopyWorker(async () => ({
        ...{ files: cluster.files, clock: cluster.clock, clusterId: 'c0ffee', ownerKeys: [owner] },
        ...{ newestSchedule: '/schedule.json', nodeId: machine.nodeId, commands, ring: { kept } },
        writes: cluster.published,
        streams: new DiskStreams(),
        readStoreCredentials: () => Promise.reject(new Error('there is no store')),
        stateEtcd: () => cluster.etcd,
      })),
      { clock: cluster.clock },
    ),
  );
}

async function copies() {
  const { entries } = await cluster.records.list(BACKUP_COPIES_PREFIX, { signal });
  return entries.map(({ key, value }) => records.backupCopies.decode(key, value))[0];
}

/** Advances the clock until the condition holds. The worker runs real programs, which take real time. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const endMs = Date.now() + WAIT_MS; Date.now() < endMs;) {
    if (await holds()) return;
    await cluster.clock.advance(1_000);
    await delay(5);
  }
  throw new Error(`it never held: ${JSON.stringify(await copies())}`);
}

const place = (): string => join(target, 'c0ffee', machine.nodeId);
const there = async (): Promise<readonly string[]> => readdir(place()).catch(() => []);
const has =
  (...seqs: readonly number[]) =>
  async (): Promise<boolean> =>
    (await copies())?.names.join() === seqs.map(nameOf).join() && (await copies())?.failure === undefined;

/** A new directory on the file system of `/`. */
async function directoryOfTheSystem(): Promise<string> {
  const { dev } = await stat('/');
  for (const parent of [tmpdir(), '/var/tmp', '/']) {
    if ((await stat(parent)).dev === dev) return makeDirectory(parent);
  }
  throw new Error('/ is a file system of its own');
}

describe('backupCopyWorker()', () => {
  test('copies the proved backups of this node, byte for byte, and nothing else', async () => {
    for (const seq of [1, 2]) await take(seq);
    await take(3, false);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(has(1, 2));
    expect(await there()).toEqual([nameOf(1), nameOf(2)]);
    expect(await readFile(join(place(), nameOf(1)), 'utf8')).toBe('backup 1');
  });

  test('deletes the copies of backups that the node no longer keeps, once the newer copies exist', async () => {
    for (const seq of [1, 2]) await take(seq);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(has(1, 2));
    await cluster.records.commit({ when: [], then: [remove(records.backup.key('1'))] }, { signal });
    await take(3);
    await until(has(2, 3));
    expect(await there()).toEqual([nameOf(2), nameOf(3)]);
  });

  test('records why a directory is missing, keeps the record of the copies, and copies the rest once the directory is back', async () => {
    await take(1);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(has(1));
    await rm(target, { recursive: true });
    await take(2);
    await until(async () => (await copies())?.failure?.code === 'backup-node-copy-target');
    expect((await copies())?.names).toEqual([nameOf(1)]);
    await mkdir(target);
    await until(has(1, 2));
    expect(await there()).toEqual([nameOf(1), nameOf(2)]);
  });

  test('writes nothing to a directory on the disk of the backups, such as the mount point of an unmounted file system', async () => {
    await take(1);
    const unmounted = join(kept, 'mnt');
    await mkdir(unmounted);
    await cluster.schedule([machine.nodeId], { copyTo: unmounted });
    run();
    await until(async () => (await copies())?.failure?.code === 'backup-node-copy-target');
    expect(await readdir(unmounted)).toEqual([]);
  });

  test('writes nothing to a directory on the disk of the operating system, when the backups are on another disk', async () => {
    [kept, target] = [target, await directoryOfTheSystem()];
    await take(1);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(async () => (await copies())?.failure?.code === 'backup-node-copy-target');
    expect(await readdir(target)).toEqual([]);
  });

  test('gives a copy no final name if its bytes differ when it is read back', async () => {
    await take(1);
    before = async ([program, ...args]) => {
      if (program === 'sha256sum') await writeFile(args.at(-1) ?? '', 'altered on its way');
    };
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(async () => (await copies())?.failure?.code === 'backup-node-copy-failed');
    expect(await there()).toEqual(['.partial']);
    before = () => undefined;
    await until(has(1));
    expect(await there()).toEqual([nameOf(1)]);
  });

  test('keeps the copies when the node has lost its own backups', async () => {
    for (const seq of [1, 2]) await take(seq);
    await cluster.schedule([machine.nodeId], { copyTo: target, keep: 2 });
    run();
    await until(has(1, 2));
    for (const seq of [1, 2])
      await cluster.records.commit({ when: [], then: [remove(records.backup.key(String(seq)))] }, { signal });
    await take(3);
    await until(has(2, 3));
    expect(await there()).toEqual([nameOf(2), nameOf(3)]);
  });

  test.each([
    { name: 'with the name of the copy in progress', link: '.partial' },
    { name: 'with the name of a backup', link: nameOf(2) },
  ])('does not write through a symbolic link $name', async ({ link }) => {
    await take(1);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(has(1));
    const elsewhere = await makeDirectory(tmpdir());
    const victim = join(elsewhere, 'victim');
    await writeFile(victim, 'of the node');
    await symlink(link === '.partial' ? victim : elsewhere, join(place(), link));
    await take(2);
    await until(
      async () => (await lstat(join(place(), nameOf(2))).catch(() => undefined))?.isFile() === true,
    );
    expect(await readFile(victim, 'utf8')).toBe('of the node');
    expect(await readdir(elsewhere)).toEqual(['victim']);
  });

  test('writes nothing if a symbolic link below the directory leads out of it', async () => {
    await take(1);
    const elsewhere = await makeDirectory(tmpdir());
    await symlink(elsewhere, join(target, 'c0ffee'));
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(async () => (await copies())?.failure?.code === 'backup-node-copy-target');
    expect(await readdir(elsewhere)).toEqual([]);
  });

  test('deletes the record of the copies, but no copy, when a new schedule names no directory', async () => {
    await take(1);
    await cluster.schedule([machine.nodeId], { copyTo: target });
    run();
    await until(has(1));
    await cluster.schedule([machine.nodeId], {});
    await until(async () => (await copies()) === undefined);
    expect(await there()).toEqual([nameOf(1)]);
  });
});
