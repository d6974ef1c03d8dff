import { afterEach, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import {
  readBackupParts,
  recoveryKeyOfOwner,
  SCHEDULED_STEP_LOG,
  SCHEDULED_STEPS,
  takerOf,
  verifyBackup,
} from '../../../internal/backup/index.ts';
import { untilAborted } from '../../../internal/cleanup/index.ts';
import { remove } from '../../../internal/etcd/index.ts';
import { currentValue } from '../../../internal/event/index.ts';
import { records } from '../../../internal/records/index.ts';
import { closeOpened, FakeClock, opened, superviseForTest } from '../../../internal/testing/index.ts';
import { generateEd25519Key } from '../../../internal/crypto/index.ts';
import { createMachine, FakeCluster, owner, ownerPem, PERIOD_MS, type Machine } from './fake-cluster.ts';
import { backupScheduleWorker } from './schedule-worker.ts';

const signal = new AbortController().signal;
const NOW = 1_800_000_000_000;
afterEach(closeOpened);

/** A cluster whose control planes run until the test ends. */
async function start(count: number) {
  const clock = new FakeClock(NOW);
  const cluster = new FakeCluster(clock);
  const machines = Array.from({ length: count }, createMachine).toSorted((a, b) =>
    a.nodeId < b.nodeId ? -1 : 1,
  );
  const ids = machines.map(({ nodeId }) => nodeId);
  await cluster.create(ids);
  const run = (...running: readonly Machine[]) =>
    opened(
      superviseForTest(
        async (scope) => {
          for (const [index, machine] of running.entries())
            scope.run(
              `n${index + 1}`,
              backupScheduleWorker(async () => cluster.optionsOf(machine)),
            );
          scope.healthy();
          await untilAborted(scope.signal);
        },
        { clock },
      ),
    );
  /** Advances the clock until the condition holds. */
  const until = async (holds: () => Promise<boolean>, stepMs = 10_000): Promise<void> => {
    for (let steps = 0; steps < 200; steps++) {
      if (await holds()) return;
      await clock.advance(stepMs);
    }
    throw new Error(`it never held; the last failure is ${await cluster.failure()}`);
  };
  const proved = (number: number) => async () =>
    (await cluster.kept()).filter(({ provedMs }) => provedMs !== undefined).length >= number;
  const filesOf = async ({ nodeId }: Machine): Promise<readonly string[]> =>
    (await cluster.files.list(join('/', nodeId, 'kept'))).filter((name) => name.endsWith('.backup'));
  return { cluster, clock, machines, ids, run, until, proved, filesOf };
}

/** The key of the record of a backup. */
function keyOf(seq: number, { nodeId }: Machine): string {
  return records.backup.key(`${String(seq).padStart(16, '0')}-${nodeId}`);
}

describe('backupScheduleWorker()', () => {
  test('takes a backup that only the owner opens, restores it, and records it as proved', async () => {
    const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const [record] = await cluster.kept();
    expect(record).toMatchObject({ seq: 1, nodeId: machine.nodeId, epoch: 2 });
    expect(await filesOf(machine)).toEqual([record?.name]);
    const kept = join('/', machine.nodeId, 'kept', record?.name ?? '');
    const bytes = (await cluster.files.read(kept, 1024 ** 2)) ?? new Uint8Array();
    const one = async function* () {
      yield await Promise.resolve(bytes);
    };
    const trust = { owners: [owner], clusterId: 'c0ffee', epoch: 2 };
    const { header, sha256 } = await verifyBackup(one(), trust);
    expect([takerOf(header), sha256]).toEqual([machine.nodeId, record?.sha256]);
    const texts: string[] = [];
    for await (const { name, data } of readBackupParts(one(), [recoveryKeyOfOwner(ownerPem)]))
      if (name.endsWith('-etcd')) texts.push(Buffer.from(data).toString());
    // The restored snapshots are the snapshots that were encrypted.
    expect(cluster.restoredSnapshots).toEqual(texts.filter((text) => text !== ''));
    expect(await cluster.files.list(join('/', machine.nodeId, 'work'))).toEqual([]);
    expect(await cluster.failure()).toBeUndefined();
  });

  test('keeps the unencrypted snapshots in the place of the proof, and records what the place was', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const [record] = await cluster.kept();
    expect(cluster.proofSizes).toEqual([record?.proof?.sizeBytes]);
    expect(cluster.niceness).toEqual([10, 'proof', 'proof', 0]);
    // Both databases, the larger one restored, and the logs of etcd.
    expect(record?.proof).toEqual({ place: 'memory', sizeBytes: 3 * 1000 + 192 * 1024 ** 2 });
    const snapshots = [...cluster.written].filter((path) => path.endsWith('.snapshot'));
    expect(snapshots).toHaveLength(2);
    expect(snapshots.filter((path) => !path.startsWith('/memory/'))).toEqual([]);
    expect(cluster.restoredSnapshots).toHaveLength(2);
  });

  test('logs each step of a backup when it begins, in order', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids);
    const { records: logged } = run(...machines);
    await until(proved(1));
    const steps = logged.flatMap(({ message, fields }) =>
      message === SCHEDULED_STEP_LOG ? [fields['step']] : [],
    );
    expect(steps).toEqual(SCHEDULED_STEPS);
  });

  test.each([
    { placeKind: 'memory', leftBytes: 65 * 1024 ** 2, isTaken: true },
    { placeKind: 'clear', leftBytes: 65 * 1024 ** 2, isTaken: false },
    { placeKind: 'clear', leftBytes: 257 * 1024 ** 2, isTaken: true },
  ] as const)(
    'with $leftBytes bytes left on the disk and a proof in the place "$placeKind": a backup is taken: $isTaken',
    async ({ placeKind, leftBytes, isTaken }) => {
      const { cluster, machines, ids, run, until } = await start(1);
      const [machine = createMachine()] = machines;
      cluster.full.add(machine.nodeId);
      Object.assign(cluster, { placeKind, leftBytes });
      await cluster.schedule(ids);
      run(machine);
      await until(async () => (await cluster.kept()).length > 0 || (await cluster.failure()) !== undefined);
      expect(await cluster.failure()).toBe(isTaken ? undefined : 'backup-node-space');
    },
  );

  test('publishes the period, the expiry of the signature and the time of the newest proved backup', async () => {
    const { cluster, machines, ids, run, until, proved, clock } = await start(1);
    const published = () => currentValue(cluster.published.scheduledBackups);
    run(...machines);
    await clock.advance(10_000);
    expect(published()).toBeUndefined();
    await cluster.schedule(ids);
    await clock.advance(10_000);
    expect(published()).toMatchObject({ periodMs: PERIOD_MS });
    await until(proved(2));
    await clock.advance(10_000);
    expect(published()?.newestMs).toBe((await cluster.kept()).at(-1)?.takenMs);
    expect(published()?.endsMs).toBeGreaterThan(clock.nowMs());
  });

  test('three control planes take one backup each period, in turns, and each keeps its newest backup', async () => {
    const { cluster, clock, machines, ids, run, until, proved, filesOf } = await start(3);
    await cluster.schedule(ids, { keep: 1 });
    run(...machines);
    for (let period = 1; period <= 3; period++) {
      await until(proved(period));
      await clock.advance(PERIOD_MS / 2);
      expect((await cluster.kept()).map(({ seq }) => seq)).toEqual([1, 2, 3].slice(0, period));
    }
    expect((await cluster.kept()).map(({ nodeId }) => nodeId)).toEqual(ids);
    const newest = async () => Math.max(...(await cluster.kept()).map(({ seq }) => seq));
    await until(async () => (await newest()) >= 5, PERIOD_MS / 10);
    for (const machine of machines) expect(await filesOf(machine)).toHaveLength(1);
  });

  test('takes only one backup when several control planes are due at the same time', async () => {
    const { cluster, clock, machines, ids, run, until, proved } = await start(3);
    // The schedule is one period old, so all control planes are due, whatever their position in the order.
    await cluster.schedule(ids, { issuedMs: NOW - PERIOD_MS });
    run(...machines);
    await until(proved(1));
    await clock.advance(PERIOD_MS / 2);
    expect(cluster.restoredSnapshots).toHaveLength(2);
    expect(await cluster.kept()).toHaveLength(1);
  });

  test('takes the backup on the next control plane when the first one is down', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(2);
    await cluster.schedule(ids);
    const [, second = createMachine()] = machines;
    run(second);
    await until(proved(1));
    expect((await cluster.kept())[0]?.nodeId).toBe(second.nodeId);
  });

  test.each([
    { name: 'another hash', restored: { hash: 1, keys: ['/registry/pods/default/a'] } },
    { name: 'fewer objects', restored: { hash: 4711, keys: [] } },
    { name: 'more objects', restored: { hash: 4711, keys: ['/registry/pods/default/a', '/registry/x/y'] } },
  ])(
    'deletes a backup whose restored etcd has $name, records the failure, and keeps the last good backup',
    async ({ restored }) => {
      const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
      await cluster.schedule(ids, { keep: 1 });
      const [machine = createMachine()] = machines;
      run(machine);
      await until(proved(1));
      const good = await filesOf(machine);
      cluster.restored = restored;
      await until(async () => (await cluster.failure()) !== undefined, PERIOD_MS / 10);
      expect(await cluster.failure()).toBe('backup-node-unproved');
      expect(await filesOf(machine)).toEqual(good);
      cluster.restored = { hash: 4711, keys: ['/registry/pods/default/a'] };
      await until(async () => (await cluster.failure()) === undefined, PERIOD_MS / 10);
      expect(await filesOf(machine)).not.toEqual(good);
    },
  );

  test('proves a backup although etcd compacts its history while it sends the snapshot', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(1);
    cluster.compactsDuringSnapshot = true;
    await cluster.schedule(ids);
    run(...machines);
    await until(proved(1));
    expect(await cluster.failure()).toBeUndefined();
  });

  test('takes the backup again when etcd compacts its history before it sends the snapshot', async () => {
    const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
    cluster.compactions = 2;
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    expect(await filesOf(machine)).toHaveLength(1);
    expect(await cluster.failure()).toBeUndefined();
  });

  test('takes no backup when the disk lacks the space for the backup and its proof', async () => {
    const { cluster, machines, ids, run, until, filesOf } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    cluster.full.add(machine.nodeId);
    run(machine);
    await until(async () => (await cluster.failure()) === 'backup-node-space');
    expect(await filesOf(machine)).toEqual([]);
  });

  test('takes the backup on another control plane when the disk of the first one is full', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(3);
    await cluster.schedule(ids);
    const [first = ''] = ids;
    cluster.full.add(first);
    run(...machines);
    await until(proved(2));
    expect((await cluster.kept()).map(({ nodeId }) => nodeId)).not.toContain(first);
  });

  test('takes the backup at once when etcd is back: an etcd that does not answer was no attempt', async () => {
    const { cluster, clock, machines, ids, run, proved } = await start(1);
    await cluster.schedule(ids);
    cluster.isAway = true;
    run(...machines);
    await clock.advance(10_000);
    expect(await proved(1)()).toBe(false);
    cluster.isAway = false;
    await clock.advance(10_000);
    await clock.advance(10_000);
    expect(await proved(1)()).toBe(true);
  });

  const comparisons = [
    {
      name: 'another control plane, if the first one is damaged',
      agreeing: [1, 2],
      differing: [0],
      takes: 1,
    },
    { name: 'no control plane, if no majority agrees', agreeing: [], differing: [0, 1, 2], takes: undefined },
  ];
  test.each(comparisons)('takes a backup on $name', async ({ agreeing, differing, takes }) => {
    const { cluster, clock, machines, ids, run } = await start(3);
    const named = (indexes: readonly number[]) => indexes.map((each) => ids[each] ?? '');
    await cluster.report(ids[2] ?? '', { agreeing: named(agreeing), differing: named(differing) });
    await cluster.schedule(ids);
    run(...machines);
    await clock.advance(PERIOD_MS);
    await clock.advance(PERIOD_MS);
    const takers = (await cluster.kept()).map(({ nodeId }) => nodeId);
    expect(takers[0]).toBe(takes === undefined ? undefined : ids[takes]);
    expect(takers).not.toContain(ids[0]);
    expect(await cluster.failure()).toBeUndefined();
  });

  test('refuses a schedule that no owner signed, and a schedule older than the one followed last', async () => {
    const { cluster, clock, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids, {}, generateEd25519Key());
    run(...machines);
    await until(async () => (await cluster.failure()) === 'backup-certificate-invalid');
    expect(await cluster.kept()).toEqual([]);
    await cluster.schedule(ids);
    await until(proved(1));
    await cluster.schedule(ids, { issuedMs: NOW - 1 });
    await clock.advance(2 * PERIOD_MS);
    await until(async () => (await cluster.failure()) === 'backup-schedule-invalid');
    expect(await cluster.kept()).toHaveLength(1);
  });

  test('records a backup again, with its proof, when its record was lost', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const before = await cluster.kept();
    await cluster.records.commit({ when: [], then: [remove(keyOf(1, machine))] }, { signal });
    await until(proved(1));
    expect(await cluster.kept()).toEqual(before);
  });

  test('keeps all good backups when their disk was mounted late', async () => {
    const { cluster, clock, machines, ids, run, until, proved, filesOf } = await start(1);
    await cluster.schedule(ids, { keep: 5 });
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(3));
    const directory = join('/', machine.nodeId, 'kept');
    const good = await filesOf(machine);
    await cluster.files.rename(directory, '/unmounted');
    await clock.advance(10_000);
    expect((await cluster.kept()).filter(({ name }) => good.includes(name))).toEqual([]);
    for (const name of await cluster.files.list('/unmounted'))
      await cluster.files.rename(join('/unmounted', name), join(directory, name));
    await until(proved(4));
    expect(await filesOf(machine)).toEqual(expect.arrayContaining([...good]));
  });

  test('writes the proof of a backup beside its file if only its record says so, as after an upgrade', async () => {
    const { cluster, clock, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    const earlier = run(machine);
    await until(proved(1));
    await earlier[Symbol.asyncDispose]();
    const before = await cluster.kept();
    const proof = join('/', machine.nodeId, 'kept', `${before[0]?.name}.proved`);
    await cluster.files.remove(proof);
    run(machine);
    await clock.advance(10_000);
    await cluster.records.commit({ when: [], then: [remove(keyOf(1, machine))] }, { signal });
    await clock.advance(10_000);
    expect(await cluster.kept()).toEqual(before);
  });

  test('treats a backup without a record and without a proof as unproved, and does not use its number again', async () => {
    const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const [name = ''] = await filesOf(machine);
    await cluster.files.remove(join('/', machine.nodeId, 'kept', `${name}.proved`));
    await cluster.records.commit({ when: [], then: [remove(keyOf(1, machine))] }, { signal });
    await until(proved(1));
    expect((await cluster.kept()).map(({ seq }) => seq)).toEqual([2]);
    expect(await filesOf(machine)).toHaveLength(1);
  });

  test('does not delete a backup that it cannot read, and takes the next one', async () => {
    const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
    await cluster.schedule(ids, { keep: 5 });
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const [name = ''] = await filesOf(machine);
    cluster.unreadable.add(join('/', machine.nodeId, 'kept', name));
    await cluster.records.commit({ when: [], then: [remove(keyOf(1, machine))] }, { signal });
    await until(proved(1));
    expect(await filesOf(machine)).toContain(name);
    expect((await cluster.kept()).map((each) => each.name)).not.toContain(name);
  });

  test('forgets the backups of a removed node at once, and takes the next one', async () => {
    const { cluster, clock, machines, ids, run, until, proved } = await start(2);
    await cluster.schedule(ids);
    const [first = createMachine(), second = createMachine()] = machines;
    const worker = run(first);
    await until(proved(1));
    await worker[Symbol.asyncDispose]();
    await cluster.records.commit({ when: [], then: [remove(records.node.key(first.nodeId))] }, { signal });
    run(second);
    await clock.advance(60_000);
    await until(proved(1));
    expect((await cluster.kept()).map(({ nodeId }) => nodeId)).toEqual([second.nodeId]);
    expect(clock.nowMs() - NOW).toBeLessThan(2 * PERIOD_MS);
  });

  test('publishes the end of a schedule that has expired, and takes nothing', async () => {
    const { cluster, clock, machines, ids, run } = await start(1);
    await cluster.schedule(ids, { endsMs: NOW + 1 });
    await clock.advance(PERIOD_MS);
    run(...machines);
    await clock.advance(10_000);
    expect(currentValue(cluster.published.scheduledBackups)?.endsMs).toBe(NOW + 1);
    expect(await cluster.failure()).toBe('backup-certificate-invalid');
    expect(cluster.snapshots).toBe(0);
  });

  test('deletes a file that is no backup of the cluster', async () => {
    const { cluster, machines, ids, run, until, proved, filesOf } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    const foreign = '00000009-20270115T080000000Z.backup';
    await cluster.files.writeAtomic(join('/', machine.nodeId, 'kept', foreign), 'x');
    await until(async () => !(await filesOf(machine)).includes(foreign));
  });

  test('deletes the record of a backup whose file is lost', async () => {
    const { cluster, machines, ids, run, until, proved } = await start(1);
    await cluster.schedule(ids);
    const [machine = createMachine()] = machines;
    run(machine);
    await until(proved(1));
    await cluster.files.remove(join('/', machine.nodeId, 'kept'));
    await until(async () => (await cluster.kept()).every(({ seq }) => seq > 1));
  });
});
