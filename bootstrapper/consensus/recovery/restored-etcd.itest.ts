import { afterEach, expect, test } from '@jest/globals';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { put, type EtcdClient } from '../../../internal/etcd/index.ts';
import { ExecaRunner, type CommandRunner } from '../../../internal/exec/index.ts';
import { closeOpened, findEtcdBinary, opened, temporaryDirectory } from '../../../internal/testing/index.ts';
import { findFreePorts, noCommands, TestMember, testMemberConfig } from '../fake-member.ts';
import type { RecoverConfig } from './data-copy.ts';
import { PROOF_ETCD_UNIT, withRestoredSnapshot, type SnapshotToRestore } from './restored-etcd.ts';

const signal = new AbortController().signal;
const CALL = { signal, timeoutMs: 10_000 };
afterEach(closeOpened);

/** The place of a proof on an encrypted disk. */
const onDisk = (snapshot: string): SnapshotToRestore => ({
  path: snapshot,
  place: { kind: 'encrypted', snapshots: dirname(snapshot), restored: undefined, memoryBytes: 0 },
});
const programs = new ExecaRunner({ path: '/usr/bin:/bin' });
/** Runs programs without systemd: those in a transient unit are run directly. */
const commands: CommandRunner = {
  run: (command) => {
    const [program, ...args] = command.argv;
    if (program === 'systemd-run') {
      const [inUnit = '', ...its] = args.slice(args.indexOf('--') + 1);
      inUnits.push(args);
      return programs.run({ ...command, argv: [inUnit, ...its] });
    }
    return (/^(systemd-sysusers|chown)$/.test(program) ? noCommands : programs).run(command);
  },
};
/** The arguments of each run of `systemd-run`. */
const inUnits: (readonly string[])[] = [];

/** A member with three keys, its configuration, and a snapshot of it in a file. */
async function start() {
  const { path } = opened(await temporaryDirectory());
  const [port = 0] = await findFreePorts(1);
  const [client = 0, peer = 0, metrics = 0] = await findFreePorts(3);
  const config = { ...(await testMemberConfig(path, 0, [port])), etcdBinary: await findEtcdBinary(path) };
  const recover: RecoverConfig = {
    ...config,
    etcdctlBinary: await findEtcdBinary(path, 'etcdctl'),
    etcdutlBinary: await findEtcdBinary(path, 'etcdutl'),
    temporaryPorts: { client, peer, metrics },
  };
  const member = new TestMember(config, commands);
  const { admin } = await member.start();
  for (const name of ['a', 'b', 'c'])
    await admin.commit({ when: [], then: [put(`/registry/pods/default/${name}`, Buffer.from(name))] }, CALL);
  const snapshot = join(path, 'snapshot');
  const chunks: Uint8Array[] = [];
  for await (const chunk of admin.maintenance.snapshot(signal)) chunks.push(chunk);
  await writeFile(snapshot, Buffer.concat(chunks));
  return { member, admin, recover, snapshot };
}

async function keysOf(etcd: EtcdClient, revision: bigint): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const keys of etcd.keys('/registry/', revision, CALL)) all.push(...keys);
  return all;
}

test('withRestoredSnapshot() runs a throwaway etcd with the content of the snapshot, while the member of this node serves', async () => {
  const { member, admin, recover, snapshot } = await start();
  const { revision } = await admin.list('/registry/', CALL);
  const { hash } = await admin.maintenance.hash(revision, CALL);
  await admin.commit({ when: [], then: [put('/registry/pods/default/later', Buffer.from('x'))] }, CALL);
  const ports = member.portsOf();
  const directory = join(recover.layout.etcdHome, 'throwaway');
  const units: string[] = [];
  const watched = Object.assign(Object.create(ports.units) as typeof ports.units, {
    install: (unit: string, content: string, at: AbortSignal) => {
      units.push(content);
      return ports.units.install(unit, content, at);
    },
    start: (unit: string, at: AbortSignal) => ports.units.start(unit, at),
    stop: (unit: string, at: AbortSignal) => ports.units.stop(unit, at),
  });
  await withRestoredSnapshot(
    { ...ports, units: watched },
    recover,
    onDisk(snapshot),
    async (restored) => {
      expect((await restored.maintenance.hash(revision, CALL)).hash).toBe(hash);
      expect(await keysOf(restored, revision)).toHaveLength(3);
      await restored.commit({ when: [], then: [put('/registry/only-here', Buffer.from('x'))] }, CALL);
      const config = JSON.parse(await readFile(join(directory, 'etcd.json'), 'utf8')) as Record<
        string,
        string
      >;
      expect(config['listen-peer-urls']).toContain('127.0.0.1');
    },
    signal,
  );
  // systemd kills the throwaway etcd before its memory use harms the members on the same machine, which have priority.
  expect(units[0]).toMatch(/^MemoryMax=1024M$/m);
  expect(units[0]).toMatch(/^CPUWeight=10$/m);
  expect(inUnits.at(-1)).toEqual(
    expect.arrayContaining(['--property=MemoryMax=1024M', '--property=CPUWeight=10', '--collect']),
  );
  expect((await ports.units.status(PROOF_ETCD_UNIT, signal)).active).not.toBe('active');
  await expect(stat(directory)).rejects.toThrow('ENOENT');
  const { revision: now } = await admin.list('/registry/', CALL);
  expect(await keysOf(admin, now)).toHaveLength(4);
});

test('withRestoredSnapshot() refuses a damaged snapshot, and leaves no files', async () => {
  const { member, recover, snapshot } = await start();
  const bytes = await readFile(snapshot);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
  await writeFile(snapshot, bytes);
  const work = () => Promise.reject(new Error('it must not run'));
  await expect(
    withRestoredSnapshot(member.portsOf(), recover, onDisk(snapshot), work, signal),
  ).rejects.toMatchObject({ code: 'consensus-snapshot-invalid' });
  await expect(stat(join(recover.layout.etcdHome, 'throwaway'))).rejects.toThrow('ENOENT');
});

test('withRestoredSnapshot() keeps the throwaway etcd in the given directory, and allows it the memory of the files there', async () => {
  const { member, recover, snapshot } = await start();
  const restoredIn = join(dirname(snapshot), 'memory');
  const seen: string[] = [];
  await withRestoredSnapshot(
    member.portsOf(),
    recover,
    {
      path: snapshot,
      place: { ...onDisk(snapshot).place, restored: restoredIn, memoryBytes: 300 * 1024 ** 2 - 1 },
    },
    async () => {
      seen.push(...(await readdir(join(restoredIn, 'data'))));
    },
    signal,
  );
  expect(seen).toEqual(['member']);
  expect(inUnits.at(-1)).toEqual(
    expect.arrayContaining(['--property=MemoryMax=1324M', '--property=MemoryHigh=1068M']),
  );
  await expect(stat(restoredIn)).rejects.toThrow('ENOENT');
});
