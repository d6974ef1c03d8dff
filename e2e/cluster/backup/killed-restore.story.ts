import assert from 'node:assert/strict';
import { copyFile, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { PHASES, type PhaseName } from '../../../initproto/phases.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { CliKiller } from '../init/cli-killer.ts';
import { InitRun } from '../init/init-run.ts';
import { isInside, KilledPhases, type KillKind } from '../init/kill-matrix.ts';
import { cutPowerInEachPhase, killAgentInEachPhase } from '../init/strike-each-phase.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { EtcdutlKiller, killEtcd } from './etcd-killer.ts';
import { contentHash, createObjects } from './restored-objects.ts';

const NAME = 'killedrestore';
const OBJECTS = 300;
/** Large objects make the database so large that an etcdutl runs long enough to be seen and killed. */
const LARGE = 50;
/** A phase of a few milliseconds can end while the command starts again. It is hit on the second machine. */
const MACHINES: Readonly<Record<KillKind, readonly string[]>> = {
  'killed-agent': ['n3'],
  'killed-cli': ['n2', 'n5'],
  'power-cuts': ['n4'],
};
/** The first kind does not kill the CLI, so that its output has all steps of the program. */
const KINDS = Object.keys(MACHINES) as KillKind[];
/** Each of these machines becomes a second control plane, so that the CLI is killed while it admits one. */
const SECOND: Readonly<Record<string, string>> = { n3: 'n6', n2: 'n7' };
const ETCD_MACHINE = 'n8';
/** The CLI waits for the phases of the machine with one step for each of them. */
const PHASE_STEP = 'init-phase-';
/** The CLI reconnects to a killed agent; there is no such step while only the CLI is killed. */
const RECONNECTING = 'init-attach';
/** From here on etcd runs on the machine. The machine does `pki` before it starts etcd. */
const ETCD_PHASES: readonly PhaseName[] = PHASES.slice(PHASES.findIndex(({ name }) => name === 'consensus'))
  .map(({ name }) => name)
  .filter((name) => name !== 'pki');

interface Restored {
  readonly clusterId: string;
  readonly epoch: number;
}

/** The same backup is restored onto several machines, one after the other. On each, every phase is interrupted once in another way. */
await test('a restore that is killed in every phase and step continues with the same command', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  await createObjects(cluster, 'n1', OBJECTS);
  const before = await contentHash(cluster, 'n1', OBJECTS);
  const kept = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _kept = { [Symbol.asyncDispose]: () => rm(kept, { recursive: true, force: true }) };
  const [file, largeFile] = [join(kept, 'killed.backup'), join(kept, 'large.backup')];
  const ownerKey = join(kept, 'owner-key.pem');
  const workspace = await cluster.workspace();
  const backUp = (to: string) =>
    cliJson<Restored>(bench, ...['--workspace', workspace, 'backup', 'create', '--to', to]);
  const created = await backUp(file);
  await cluster.sh(
    'n1',
    `for i in $(seq ${LARGE}); do head -c 700000 /dev/urandom | base64 -w0 > /root/large && kubectl create configmap large-$i --from-file /root/large >/dev/null || exit 1; done`,
  );
  await backUp(largeFile);
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  const local = await bench.cluster(NAME);
  for (const name of [...Object.values(MACHINES).flat(), ETCD_MACHINE])
    await addMachine(bench, local, { name, like: 'n1', joinEndpoints: [] });
  for (const [first, name] of Object.entries(SECOND)) {
    const joinEndpoints = [`${await cluster.address(first)}:9090`];
    await addMachine(bench, local, { name, like: 'n1', joinEndpoints });
  }
  await cluster.cutPower('n1');
  const commandFor = async (name: string, from = file) => {
    const machine = await WatchedMachine.joining(bench, NAME, name);
    const own = join(kept, `workspace-${name}`); // each restore starts with the file and the owner key only
    await mkdir(own);
    const at = ['--node', machine.address, '--fingerprint', machine.fingerprint, '--owner-key', ownerKey];
    const second = SECOND[name];
    if (second !== undefined) at.push('--control-plane', `${second}=${await cluster.fingerprint(second)}`);
    return { machine, args: ['--workspace', own, 'restore', from, ...at, '--yes'] };
  };
  const verify = async (name: string, last: InitRun): Promise<void> => {
    assert.equal(await last.ended, 0, last.said());
    const restored = last.outcome()?.data as Restored;
    assert.deepEqual([restored.clusterId, restored.epoch], [created.clusterId, 2]);
    const machines = [name, ...(SECOND[name] === undefined ? [] : [SECOND[name]])];
    await cluster.allReady(machines.toSorted(), 120, name);
    assert.equal(await contentHash(cluster, name, OBJECTS), before);
    assert.equal(await cluster.members(name), machines.length, 'each node is recorded once');
    for (const machine of machines) await cluster.cutPower(machine); // two machines must not run the same cluster
  };
  let steps: readonly string[] = [];

  for (const kind of KINDS)
    await story.test(`${kind}: once in every phase`, async (step) => {
      const killed = new KilledPhases(kind);
      for (const name of MACHINES[kind]) {
        if (killed.missing().length === 0) break;
        const { machine, args } = await commandFor(name);
        const isFirst = SECOND[name] !== undefined;
        const last = await interrupted(kind, { bench, machine, killed, args, steps: isFirst ? steps : [] });
        await verify(name, last);
        if (kind === 'killed-agent') steps = stepsOf(last);
      }
      step.diagnostic(killed.table());
      assert.deepEqual(killed.missing(), []);
    });

  await story.test(
    'etcd is killed in every phase, and etcdutl in each of its runs, on the machine and on the workstation',
    async (step) => {
      const phases = new Map<PhaseName, number>();
      const { machine, args } = await commandFor(ETCD_MACHINE, largeFile);
      const last = await restoreWithoutEtcd(bench, machine, { args, phases, step });
      step.diagnostic([...phases].map(([phase, count]) => `${phase}: ${count} etcd killed`).join('\n'));
      assert.deepEqual([...phases.keys()].toSorted(), ETCD_PHASES.toSorted());
      await verify(ETCD_MACHINE, last);
    },
  );

  await story.test('no decrypted backup is left in memory', async () => {
    const left = (await readdir('/dev/shm')).filter((name) => name.startsWith('cluster-backup-'));
    assert.deepEqual(left, []);
  });
});

interface WithoutEtcd {
  readonly args: readonly string[];
  /** Gets how many etcd members were killed in each phase. */
  readonly phases: Map<PhaseName, number>;
  readonly step: TestContext;
}

/** Restores while each etcdutl is killed once, and etcd once in each phase. Returns the run that ended. */
async function restoreWithoutEtcd(
  bench: Harness,
  machine: WatchedMachine,
  { args, phases, step }: WithoutEtcd,
): Promise<InitRun> {
  const workDir = await mkdtemp(join(bench.directory, 'decrypted-'));
  const { scope } = machine;
  await using killer = new EtcdutlKiller([
    ...['/state-data', '/kubernetes-data'].map((name) => ({ directory: [workDir, name] })),
    ...['etcd-state/restored', 'etcd-kubernetes/restored'].map((path) => ({ directory: [path], scope })),
  ]);
  let isOver = false;
  const watching = machine.eachStart(
    async ({ event: { phase } }) => {
      if (!ETCD_PHASES.includes(phase) || phases.has(phase)) return isOver ? 'stop' : 'go on';
      // In the first of these phases, etcd starts some time after the phase.
      do {
        const count = await killEtcd(scope);
        if (count > 0) phases.set(phase, count);
      } while (!phases.has(phase) && isInside(await machine.events(), phase));
      return 'go on';
    },
    () => isOver,
  );
  for (let runs = 1; ; runs++) {
    const missing = killer.missing().length;
    const run = new InitRun(bench, [...args, '--work-dir', workDir]);
    if ((await run.ended) === 0) {
      isOver = true;
      await watching;
      assert.deepEqual(killer.missing(), []);
      return run;
    }
    // Only a killed etcdutl of the workstation ends the command.
    assert.match(run.said(), /exec-failed/);
    assert.ok(killer.missing().length < missing, run.said());
    step.diagnostic(`run ${runs} ended with its etcdutl`);
  }
}

interface Interrupted {
  readonly bench: Harness;
  readonly machine: WatchedMachine;
  readonly killed: KilledPhases;
  readonly args: readonly string[];
  readonly steps: readonly string[];
}

/** The steps of the CLI, as its output names them. */
function stepsOf({ lines }: InitRun): readonly string[] {
  const codes = lines.filter(({ type }) => type === 'step-started').map(({ code = '' }) => code);
  const steps = [...new Set(codes)].filter((code) => !code.startsWith(PHASE_STEP) && code !== RECONNECTING);
  for (const known of ['backup-prove', 'restore-upload', 'node-admit', 'node-approve-wait'])
    assert.ok(steps.includes(known), `${known} of ${steps.join(', ')}`);
  return steps;
}

/** Runs the command while it is interrupted. Returns the run that was not. */
async function interrupted(
  kind: KillKind,
  { bench, machine, killed, args, steps }: Interrupted,
): Promise<InitRun> {
  if (kind === 'killed-cli') {
    const killer = new CliKiller(bench, machine, killed, { args, steps });
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
