import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { env } from 'node:process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { Workstation } from '../tutorial/workstation.ts';

const NAME = 'blind';
const MACHINES = ['n1', 'n2', 'n3', 'n4', 'n5'];
/** At most this many of the catalogue may be named wrongly: 28 of 30. */
const MISSES = 2;
const POLL_MS = 5_000;
/** Time for the last look at a fault after it shows. */
const LOOK_MS = 30_000;
const HEALTHY_MS = 300_000;
/** Findings about the speed of the host, which other programs use too. */
const OF_THE_HOST = ['doctor-fsync', 'doctor-latency', 'doctor-disk-space'];
/** Some ids of the catalogue, separated by commas: only these are injected, and each must be named. */
const ONLY = env['BLIND_FAULTS']?.split(',');

/**
 * A fault of the catalogue, which somebody wrote from public reports of users without knowing the checks of doctor.
 * `on` is a machine or the workstation.
 */
interface Fault {
  readonly id: string;
  readonly on: string;
  readonly inject: string;
  readonly undo: string;
  /** Seconds until the fault shows, at most. */
  readonly waits: number;
  readonly cause: string;
  /** One of these expressions matches the cause that doctor names first if that is right. */
  readonly names: readonly string[];
}
interface Problem {
  readonly code: string;
  readonly grade: string;
  readonly subject: string;
  readonly cause: string;
}

async function readCatalogue(): Promise<readonly Fault[]> {
  const text = await readFile(join(import.meta.dirname, 'blind-faults.json'), 'utf8');
  const all = JSON.parse(text) as readonly Fault[];
  return all.filter(({ id }) => ONLY?.includes(id) ?? true);
}

await test('doctor names the cause of faults that its authors have not chosen', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const environment = {
    KUBECONFIG: join(workspace, 'kubeconfig'),
    CLUSTER_WORKSPACE: workspace,
    MINI_NAME: NAME,
    // Where `cluster mini` finds the machines.
    XDG_DATA_HOME: join(bench.directory, 'data'),
  };
  const workstation = await Workstation.create(bench, {
    ...{ cluster, machines: MACHINES, own: {}, kubectl: true, environment },
  });
  await workstation.run('apt-get install -y ./dist/cluster_*_amd64.deb');

  const run = async ({ on }: Fault, script: string): Promise<void> => {
    if (on === 'workstation') return workstation.run(script);
    const { code, stderr } = await cluster.try(on, 'bash', '-c', script);
    if (code !== 0) throw new Error(`on ${on}: exit code ${code}: ${stderr}`);
  };
  /** What doctor finds wrong, likely causes first. */
  const problems = async (): Promise<readonly Problem[]> => {
    const { stdout } = await bench.cli('--workspace', workspace, 'doctor', '--output', 'json');
    const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
      data?: { problems: readonly Problem[] };
    };
    return (last.data?.problems ?? []).filter(
      ({ code, grade }) => grade !== 'good' && !OF_THE_HOST.includes(code),
    );
  };
  const until = async (ms: number, isDone: (found: readonly Problem[]) => boolean) => {
    const endMs = Date.now() + ms;
    for (;;) {
      const found = await problems();
      if (isDone(found) || Date.now() > endMs) return found;
      await bench.machines.clock.sleep(POLL_MS, bench.signal);
    }
  };
  const untilHealthy = async (): Promise<void> => {
    const left = await until(HEALTHY_MS, (found) => found.length === 0);
    assert.deepEqual(left, [], 'the cluster does not become healthy again');
  };

  await cluster.allReady(MACHINES, 120);
  await untilHealthy();
  const missed: string[] = [];
  for (const fault of await readCatalogue())
    await story.test(fault.id, async (step) => {
      await run(fault, fault.inject);
      const startedMs = Date.now();
      const isRight = ([first]: readonly Problem[]): boolean =>
        first !== undefined &&
        fault.names.some((name) => new RegExp(name, 'i').test(`${first.subject}: ${first.cause}`));
      const found = await until(fault.waits * 1000 + LOOK_MS, isRight);
      const [first] = found;
      step.diagnostic(`expected: ${fault.cause}`);
      step.diagnostic(
        `first after ${Date.now() - startedMs} ms: ${first?.code} ${first?.subject}: ${first?.cause}`,
      );
      if (!isRight(found)) {
        missed.push(fault.id);
        for (const { code, subject, cause } of found) step.diagnostic(`found: ${code} ${subject}: ${cause}`);
      }
      await run(fault, fault.undo);
      await untilHealthy();
    });

  await story.test('the cause named first was the right one', (step) => {
    step.diagnostic(`missed: ${missed.join(', ') || 'none'}`);
    assert.ok(missed.length <= (ONLY === undefined ? MISSES : 0), `missed ${missed.join(', ')}`);
  });
});
