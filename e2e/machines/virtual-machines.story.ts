import assert from 'node:assert/strict';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { findCluster } from '../../internal/localmachines/index.ts';
import { createHarness } from './harness.ts';

/** The partition `cluster-state` of a disk of `cluster image build`: after one MiB and the boot partition. */
const STATE_AT = 513 * 2 ** 20;
/** What the record of a state disk begins with, where its two slots are, and where its data begin (docs/decisions/state-disk.md). */
const RECORD = 'clstdisk';
const SLOTS_AT = [STATE_AT, STATE_AT + 8 * 2 ** 20];
const DATA_AT = STATE_AT + 16 * 2 ** 20;
/** Where a file system of ext4 has its magic number, and the number (ext4(5)). */
const EXT4 = { at: 1024 + 56, magic: 'ef53' };
const UP = ['mini', 'up', '--machines', 'vm', '--nodes-only', '--name', 'virtual'] as const;
const WAIT_MS = 1_200_000;

interface Up {
  readonly type: string;
  readonly machines: readonly {
    readonly name: string;
    readonly address: string;
    readonly fingerprint: string;
  }[];
}

/**
 * Virtual machines of `cluster mini` boot the image of `cluster image build` with UEFI firmware and a software TPM. Without KVM they are
 * emulated: the story takes minutes.
 */
await test('a virtual machine keeps its encrypted disk and its identity over shutdown and power cut', async (story) => {
  await using bench = await createHarness();
  const before = await bench.facts();
  let fingerprint = '';

  await story.test('preflight finds everything that virtual machines need', async () => {
    assert.match(
      await bench.must('mini', 'preflight', '--machines', 'vm'),
      /can run local clusters of virtual machines/,
    );
  });

  await story.test(
    'up that was killed while it wrote the disk is repeated, until the machine shows its fingerprint',
    async () => {
      await bench.killedCli('Writing the disk', 100, ...UP);
      const said = await bench.must(...UP, '-o', 'json');
      const { type, machines } = dataOf<Up>(said);
      assert.deepEqual([type, machines.map(({ name }) => name)], ['vm', ['n1']]);
      fingerprint = machines[0]?.fingerprint ?? '';
      assert.match(fingerprint, /^sha256:[0-9a-f]{64}$/);
      assert.match(await bench.must('mini', 'ls'), /n1 +Running +vm +Encrypted/);
    },
  );

  const cluster = await bench.cluster('virtual');
  const node = await cluster.node('n1');
  const consoleOf = (): Promise<string> => readFile(node.paths.console, 'utf8');

  await story.test('its state is not readable on its disk', async () => {
    const disk = join(node.paths.vm, 'disk.raw');
    const slots = await Promise.all(SLOTS_AT.map((at) => bytesAt(disk, at, RECORD.length)));
    assert.ok(slots.some((slot) => slot.toString('latin1') === RECORD));
    assert.notEqual((await bytesAt(disk, DATA_AT + EXT4.at, 2)).reverse().toString('hex'), EXT4.magic);
    assert.ok(
      (await bytesAt(disk, DATA_AT, 65_536)).some((byte) => byte !== 0),
      'the machine has written nothing',
    );
  });

  await story.test('no program can be started in it, and its cluster cannot get containers', async () => {
    const exec = await bench.cli('mini', 'exec', '--name', 'virtual', 'n1', '--', 'true');
    assert.match(exec.stderr, /localmachines-no-programs/);
    const other = await bench.cli(
      'mini',
      'up',
      '--machines',
      'container',
      '--nodes-only',
      '--name',
      'virtual',
    );
    assert.match(other.stderr, /mini-machines-other/);
  });

  await story.test('up again starts nothing twice', async () => {
    const processes = async (): Promise<readonly string[]> =>
      ((await bench.facts())['processes'] ?? []).filter((line) =>
        line.startsWith(`clu${cluster.network.number}-`),
      );
    const running = await processes();
    await bench.must(...UP);
    assert.deepEqual(await processes(), running);
    for (const program of ['qemu-system-x86_64', 'swtpm', 'dnsmasq'])
      assert.equal(running.filter((line) => line.includes(` ${program} `)).length, 1, program);
  });

  await story.test('stop presses its power button, and it shuts down', async () => {
    const { how } = dataOf<{ how: string }>(
      await bench.must('mini', 'stop', '--name', 'virtual', 'n1', '-o', 'json'),
    );
    assert.equal(how, 'orderly');
    assert.equal(await node.isRunning(bench.signal), false);
    assert.match(await bench.must('mini', 'ls'), /n1 +Stopped +vm +Encrypted/);
  });

  await story.test('start opens its disk again: it has the same key', async () => {
    await bench.must('mini', 'start', '--name', 'virtual', 'n1');
    await untilShown(consoleOf, fingerprint);
    assert.doesNotMatch(await consoleOf(), /disk-locked/);
  });

  await story.test('its disk opens also after a power cut', async () => {
    await bench.must('mini', 'stop', '--power-cut', '--name', 'virtual', 'n1');
    assert.equal(await node.isRunning(bench.signal), false);
    await bench.must('mini', 'start', '--name', 'virtual', 'n1');
    await untilShown(consoleOf, fingerprint);
  });

  await story.test('down leaves nothing', async () => {
    await bench.must('mini', 'down', '--name', 'virtual');
    assert.deepEqual(bench.changes(before, await bench.facts(), [cluster.network.number]), []);
    assert.deepEqual(await bench.machines.files.list(bench.root), []);
  });
});

await test('after kill -9 of up while the machine starts, mini down restores the host', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  await bench.killedCli('Starting machine', 1500, ...UP);
  const cluster = await findCluster(bench.machines, { root: bench.root, name: 'virtual' });
  await bench.must('mini', 'down', '--name', 'virtual');
  const mine = cluster === undefined ? [] : [cluster.network.number];
  assert.deepEqual(bench.changes(before, await bench.facts(), mine), []);
});

async function untilShown(consoleOf: () => Promise<string>, text: string): Promise<void> {
  const endMs = performance.now() + WAIT_MS;
  while (!(await consoleOf()).includes(text)) {
    assert.ok(performance.now() < endMs, `the console does not show ${text}`);
    await delay(1000);
  }
}

async function bytesAt(path: string, position: number, length: number): Promise<Buffer> {
  await using file = await open(path);
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer;
}

/** The data of a result in JSON, which is the last line. */
function dataOf<T>(text: string): T {
  return (JSON.parse(text.trim().split('\n').at(-1) ?? '') as { readonly data: T }).data;
}
