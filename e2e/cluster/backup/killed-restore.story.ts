import assert from 'node:assert/strict';
import { copyFile, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { CliKiller } from '../init/cli-killer.ts';
import { InitRun } from '../init/init-run.ts';
import { KILL_KINDS, KilledPhases, type KillKind } from '../init/kill-matrix.ts';
import { cutPowerInEachPhase, killAgentInEachPhase } from '../init/strike-each-phase.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { contentHash, createObjects } from './restored-objects.ts';

const NAME = 'killedrestore';
const OBJECTS = 300;
/** Steps of `cluster restore` itself, before and after the phases of the machine. */
const STEPS = [
  'restore-verify',
  'restore-workspace',
  'backup-prove',
  'init-connect',
  'init-upload',
  'restore-upload',
  'init-acknowledge',
  'init-api',
  'init-node-ready',
] as const;
/** A phase of a few milliseconds can end while the command starts again. It is hit on the second machine. */
const MACHINES: Readonly<Record<KillKind, readonly string[]>> = {
  'killed-cli': ['n2', 'n5'],
  'killed-agent': ['n3'],
  'power-cuts': ['n4'],
};

interface Restored {
  readonly clusterId: string;
  readonly epoch: number;
}

/** The same backup is restored onto three machines, one after the other. On each, every phase is interrupted once in another way. */
await test('a restore that is killed in every phase and step continues with the same command', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  await createObjects(cluster, 'n1', OBJECTS);
  const before = await contentHash(cluster, 'n1', OBJECTS);
  const kept = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _kept = { [Symbol.asyncDispose]: () => rm(kept, { recursive: true, force: true }) };
  const [file, ownerKey] = [join(kept, 'killed.backup'), join(kept, 'owner-key.pem')];
  const workspace = await cluster.workspace();
  const created = await cliJson<Restored>(
    bench,
    ...['--workspace', workspace, 'backup', 'create', '--to', file],
  );
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  const local = await bench.cluster(NAME);
  for (const name of Object.values(MACHINES).flat())
    await addMachine(bench, local, { name, like: 'n1', joinEndpoints: [] });
  await cluster.cutPower('n1');

  for (const kind of KILL_KINDS)
    await story.test(`${kind}: once in every phase`, async (step) => {
      const killed = new KilledPhases(kind);
      for (const name of MACHINES[kind]) {
        if (killed.missing().length === 0) break;
        const machine = await WatchedMachine.joining(bench, NAME, name);
        const own = join(kept, `${kind}-${name}`); // each restore starts with the file and the owner key only
        await mkdir(own);
        const at = ['--node', machine.address, '--fingerprint', machine.fingerprint, '--owner-key', ownerKey];
        const args = ['--workspace', own, 'restore', file, ...at, '--yes'];
        const last = await interrupted(kind, { bench, machine, killed, args });
        assert.equal(await last.ended, 0, last.said());
        const restored = last.outcome()?.data as Restored;
        assert.deepEqual([restored.clusterId, restored.epoch], [created.clusterId, 2]);
        await cluster.allReady([name], 120, name);
        assert.equal(await contentHash(cluster, name, OBJECTS), before);
        assert.equal(await cluster.members(name), 1, 'one node is recorded');
        await cluster.cutPower(name); // two machines must not run the same cluster
      }
      step.diagnostic(killed.table());
      assert.deepEqual(killed.missing(), []);
    });

  await story.test('no decrypted backup is left in memory', async () => {
    const left = (await readdir('/dev/shm')).filter((name) => name.startsWith('cluster-backup-'));
    assert.deepEqual(left, []);
  });
});

interface Interrupted {
  readonly bench: Awaited<ReturnType<typeof createHarness>>;
  readonly machine: WatchedMachine;
  readonly killed: KilledPhases;
  readonly args: readonly string[];
}

/** Runs the command while it is interrupted. Returns the run that was not. */
async function interrupted(kind: KillKind, { bench, machine, killed, args }: Interrupted): Promise<InitRun> {
  if (kind === 'killed-cli') {
    const killer = new CliKiller(bench, machine, killed, { args, steps: STEPS });
    const last = await killer.run();
    assert.deepEqual(killer.stepsLeft, []);
    return last;
  }
  if (kind === 'killed-agent') {
    const pid = await machine.agentAfter(undefined);
    const cli = new InitRun(bench, args);
    await killAgentInEachPhase(machine, killed, { cli, pid });
    return cli;
  }
  await cutPowerInEachPhase(bench, machine, killed, args);
  return new InitRun(bench, args);
}
