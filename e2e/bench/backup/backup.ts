import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../../cluster/harness/story-cluster.ts';
import { ApiClient } from '../api/api-client.ts';
import { median, p99, ratioOf, type BenchResult } from '../result.ts';
import { BackupWatch, STAGES, type Stage } from './backup-watch.ts';

const NAME = 'bench-backup';
const NODE = 'n1';
/** Together 1 GiB, in ConfigMaps that are a little smaller than an API server accepts. */
const OBJECTS = 1_150;
const OBJECT_BYTES = 700_000; // 933,336 characters of base64
const CREATED_AT_ONCE = 4;
const MAPS = '/api/v1/namespaces/default/configmaps';
const ROUNDS = 3;
const QUIET_MS = 60_000;
/** Pause between two rounds of calls: a client that waits for nothing would measure only itself. */
const PAUSE_MS = 20;
const POLL_MS = 250;
const BACKUP_MS = 15 * 60_000;
const P99_LIMIT = 1.2;
const MB = 1e6;

/** The time of one call. */
interface Timed {
  readonly stage: Stage;
  readonly ms: number;
}

/**
 * Measures what a scheduled backup of 1 GiB costs a busy cluster with one control plane: the latency of its API while this
 * node takes and proves the backup, against the minutes before and after it; and the memory of the agent and of the throwaway etcd.
 */
export async function runBackupBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  using client = await ApiClient.open(join(await cluster.workspace(), 'kubeconfig'));
  const host = await cluster.address(NODE);
  await fill(client, host);
  await using watch = new BackupWatch(await (await bench.cluster(NAME)).node(NODE), bench.signal);
  const measureQuiet = () => callUntil(client, host, { watch, isOver: after(QUIET_MS) });
  const during: Timed[][] = [];
  const seconds: number[] = [];
  const windows = [await measureQuiet()];
  for (let round = 0; round < rounds; round++) {
    await cluster.cliJson('backup', 'schedule', 'set', '--every', '1m', '--keep', '1');
    await until(() => watch.stage !== 'none', 'a backup begins');
    const startMs = performance.now();
    const within = await callUntil(client, host, { watch, isOver: () => watch.stage === 'none' });
    seconds.push((performance.now() - startMs) / 1000);
    await cluster.cliJson('backup', 'schedule', 'stop', '--yes');
    await until(() => watch.stage === 'none', 'the last backup ends');
    windows.push(await measureQuiet());
    during.push(within);
    const [before = [], next = []] = windows.slice(-2);
    process.stderr.write(`round ${round + 1}: ${describe(before)}, ${describe(within)}, ${describe(next)}\n`);
  }
  const { backups: kept } = await cluster.cliJson<{
    readonly backups: readonly { readonly proof: string; readonly sizeBytes: number }[];
  }>('backup', 'ls');
  const bytes = kept.find(({ proof }) => proof === 'CONTENT-PROVED')?.sizeBytes;
  if (bytes === undefined) throw new Error(`no backup was proved: ${JSON.stringify(kept)}`);
  const p99Of = (times: readonly Timed[]): number => p99(times.map(({ ms }) => ms));
  const within = during.map(p99Of);
  // The minutes before and after a backup: a machine that becomes slower or faster meanwhile changes both.
  const without = during.map((_, round) => p99Of(windows.slice(round, round + 2).flat()));
  return [
    {
      name: 'API p99 while a backup of 1 GiB is taken and proved, ÷ without',
      ...ratioOf(within, without),
      limit: P99_LIMIT,
      detail: `p99 without ${format(median(without))} (each minute: ${windows.map((each) => format(p99Of(each))).join(', ')}); by stage: ${describe(during.flat())}`,
    },
    {
      name: 'a backup of 1 GiB, from its start until it is proved',
      ...{ value: median(seconds), unit: 's', runs: rounds },
      detail: `a file of ${(bytes / MB).toFixed(0)} MB, on a control plane that is busy`,
    },
    ...watch.results(),
  ];
}

/** Creates objects until the database has 1 GiB. */
async function fill(client: ApiClient, host: string): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < OBJECTS) {
      const metadata = { name: `large-${next++}` };
      const data = { text: randomBytes(OBJECT_BYTES).toString('base64') };
      await client.call(host, 'POST', MAPS, { metadata, data });
    }
  };
  await Promise.all(Array.from({ length: CREATED_AT_ONCE }, work));
}

/** Creates, reads, changes and deletes one object after the other until `isOver`. */
async function callUntil(
  client: ApiClient,
  host: string,
  { watch, isOver }: { readonly watch: BackupWatch; readonly isOver: () => boolean },
): Promise<Timed[]> {
  const times: Timed[] = [];
  const timed = async (method: string, path: string, body?: object): Promise<void> => {
    const { stage } = watch;
    const startMs = performance.now();
    await client.call(host, method, path, body);
    times.push({ stage, ms: performance.now() - startMs });
  };
  for (let round = 0; !isOver(); round++) {
    const name = `small-${round}`;
    await timed('POST', MAPS, { metadata: { name }, data: { n: '1' } });
    await timed('GET', `${MAPS}/${name}`);
    await timed('PUT', `${MAPS}/${name}`, { metadata: { name }, data: { n: '2' } });
    await timed('DELETE', `${MAPS}/${name}`);
    await delay(PAUSE_MS);
  }
  return times;
}

function after(ms: number): () => boolean {
  const endMs = performance.now() + ms;
  return () => performance.now() > endMs;
}

async function until(isSo: () => boolean, what: string): Promise<void> {
  const isLate = after(BACKUP_MS);
  while (!isSo()) {
    if (isLate()) throw new Error(`waited 15 minutes until ${what}`);
    await delay(POLL_MS);
  }
}

/** "taken 900 calls, median 5 ms, p99 9 ms, longest 20 ms; restored …" */
function describe(times: readonly Timed[]): string {
  const byStage = STAGES.flatMap((stage) => {
    const ms = times.filter((each) => each.stage === stage).map((each) => each.ms);
    if (ms.length === 0) return [];
    return [
      `${stage} ${ms.length} calls, median ${format(median(ms))}, p99 ${format(p99(ms))}, longest ${format(Math.max(...ms))}`,
    ];
  });
  return byStage.join('; ');
}

function format(ms: number): string {
  return `${ms.toFixed(1)} ms`;
}
