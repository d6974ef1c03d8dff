import { copyFile, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { contentHash, createObjects } from '../../cluster/backup/restored-objects.ts';
import { addMachine } from '../../cluster/harness/add-machine.ts';
import { eventually } from '../../cluster/harness/node-shell.ts';
import { cliJson, StoryCluster } from '../../cluster/harness/story-cluster.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { median, middleOf, type BenchResult } from '../result.ts';

const NAME = 'bench-restore';
const OBJECTS = 2_000;
const OLD = ['n1', 'n2', 'n3', 'n4', 'n5'] as const;
const FRESH = 3;
const ROUNDS = 3;
const LIMIT_SECONDS = 180;
/** For the application to answer after the command. */
const ANSWER_SECONDS = 120;
const MB = 1e6;

/** A backup file, and what the restored cluster has to have. */
interface Lost {
  readonly file: string;
  readonly ownerKey: string;
  readonly content: string;
}

interface Times {
  readonly total: number;
  readonly command: number;
}

/**
 * Measures how long the loss of every machine lasts once three fresh machines and the backup file are there: from the start of the command until
 * all three are Ready and the application answers. Each round restores the same file, with nothing but the owner key, onto three other machines.
 */
export async function runRestoreBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2', '--demo');
  await createObjects(cluster, 'n1', OBJECTS);
  await answer(cluster, 'n1');
  const workspace = await cluster.workspace();
  const [file, ownerKey] = [join(bench.directory, 'lost.backup'), join(bench.directory, 'owner-key.pem')];
  const content = await contentHash(cluster, 'n1', OBJECTS);
  await bench.must('--workspace', workspace, 'backup', 'create', '--to', file);
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  const all: Times[] = [];
  let lost: readonly string[] = OLD;
  for (let round = 0; round < rounds; round++) {
    const names = Array.from({ length: FRESH }, (_, index) => `f${round * FRESH + index + 1}`);
    all.push(await restoreOnto(bench, cluster, { names, lost }, { file, ownerKey, content }));
    lost = names;
  }
  const totals = all.map(({ total }) => total);
  const megabytes = (await stat(file)).size / MB;
  return [
    {
      name: 'restore of 3 + 2 nodes with 2,000 objects onto 3 fresh machines, until all are Ready and the application answers',
      ...{ ...middleOf(totals), unit: 's', limit: LIMIT_SECONDS },
      detail: `the command ${median(all.map(({ command }) => command)).toFixed(0)} s, with nothing but the owner key and a file of ${megabytes.toFixed(1)} MB`,
    },
  ];
}

/** Restores the backup onto fresh machines, which are created like the machines that are lost then. */
async function restoreOnto(
  bench: Harness,
  cluster: StoryCluster,
  { names, lost }: { readonly names: readonly string[]; readonly lost: readonly string[] },
  { file, ownerKey, content }: Lost,
): Promise<Times> {
  const [first = '', ...others] = names;
  const [like = ''] = lost;
  const local = await bench.cluster(NAME);
  await addMachine(bench, local, { name: first, like, joinEndpoints: [] });
  const joinEndpoints = [`${await cluster.address(first)}:9090`];
  for (const name of others) await addMachine(bench, local, { name, like, joinEndpoints });
  const at = ['--node', await cluster.address(first), '--fingerprint', await cluster.fingerprint(first)];
  for (const name of others) at.push('--control-plane', `${name}=${await cluster.fingerprint(name)}`);
  for (const name of lost) await cluster.cutPower(name);
  const workspace = join(bench.directory, `workspace-${first}`);
  await mkdir(workspace);
  const startMs = performance.now();
  const seconds = (): number => (performance.now() - startMs) / 1000;
  await cliJson(
    bench,
    ...['--workspace', workspace, 'restore', file, ...at, '--owner-key', ownerKey, '--yes'],
  );
  const command = seconds();
  await cluster.allReady(names, ANSWER_SECONDS, first);
  await answer(cluster, first);
  const total = seconds();
  process.stderr.write(`${names.join(', ')}: command ${command.toFixed(1)} s, all ${total.toFixed(1)} s\n`);
  const restored = await contentHash(cluster, first, OBJECTS);
  if (restored !== content) throw new Error(`the objects on ${first} are not those of the backup`);
  return { total, command };
}

/** Waits until the Service of the sample application answers a request from this machine. */
async function answer(cluster: StoryCluster, machine: string): Promise<void> {
  const [address] = (
    await cluster.sh(
      machine,
      `kubectl get services -A -l app.kubernetes.io/name=hello -o jsonpath='{.items[*].spec.clusterIP}'`,
    )
  ).split(' ');
  const ask = `exec 3<>/dev/tcp/${address}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`;
  await eventually(
    'the application answers',
    ANSWER_SECONDS,
    () => cluster.try(machine, 'timeout', '2', 'bash', '-c', ask),
    ({ stdout }) => /^HTTP\/1\.[01] 200 /.test(stdout),
  );
}
