import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { median, p99, type BenchResult } from '../result.ts';
import { compareIdleLogs } from './idle-logs.ts';
import {
  deliverWatch,
  listFew,
  listMany,
  loseEndpoint,
  openWatch,
  prepare,
  reachEndpoint,
  removeDeployment,
  rollDeployment,
  startPod,
  writeObject,
} from './measurements.ts';
import { TwoClusters, WORKER, type MeasuredCluster } from './two-clusters.ts';

const LIMIT = 1.1;
/** Number of watch events that are measured on one cluster before the other cluster's turn. */
const DELIVERIES = 20;

/** The times of one measurement in ms: of our cluster, and of the plain cluster (created with manual kubeadm). */
interface Times {
  readonly ours: number[];
  readonly theirs: number[];
}

/** One measurement: a name for each time that one round returns, the number of rounds, and the work of a round. */
interface Measurement {
  readonly names: readonly string[];
  readonly rounds: number;
  readonly measure: (cluster: MeasuredCluster, round: number) => Promise<readonly number[]>;
  /** Set if a round returns several times that all belong to the first name. */
  readonly isSeries?: true;
}

/**
 * Compares the API of our cluster (three control planes and a worker) with the API of an equal cluster that was
 * created with manual kubeadm. Both clusters run all the time, with the same audit and encryption, and each
 * measurement alternates between them.
 * @param factor divides the rounds, for a quick run
 */
export async function runApiBench(factor = 1): Promise<readonly BenchResult[]> {
  await using clusters = await TwoClusters.open();
  const { ours, theirs } = clusters;
  const both = [theirs, ours];
  const idle = await compareIdleLogs(clusters);
  for (const cluster of both) await prepare(cluster);
  const results: BenchResult[] = [];
  for (const measurement of measurementsOf(clusters)) {
    const rounds = Math.max(2, Math.round(measurement.rounds / factor));
    const times = await alternately({ ...measurement, rounds }, clusters);
    const rows = measurement.names.map((name, index) =>
      resultOf(name, times[index] ?? { ours: [], theirs: [] }),
    );
    process.stderr.write(`${rows.map(({ name, detail }) => `${name}: ${detail}`).join('\n')}\n`);
    results.push(...rows);
  }
  for (const cluster of both) await removeDeployment(cluster);
  const lost = await Promise.all(
    both.map((cluster) => loseEndpoint(cluster, WORKER, () => cluster.worker.cutPower(clusters.signal))),
  );
  const [theirsMs = NaN, oursMs = NaN] = lost;
  results.push(
    resultOf('a node is lost → its endpoint is not ready', { ours: [oursMs], theirs: [theirsMs] }),
  );
  return [...results, idle];
}

function measurementsOf(clusters: TwoClusters): readonly Measurement[] {
  const one =
    (work: (cluster: MeasuredCluster, round: number) => Promise<number>) =>
    async (cluster: MeasuredCluster, round: number) => [await work(cluster, round)];
  return [
    { names: ['open a watch, until its first object'], rounds: 60, measure: one(openWatch) },
    { names: ['consistent list of 100 objects'], rounds: 100, measure: one(listFew) },
    { names: ['consistent list of 5,000 objects'], rounds: 16, measure: one(listMany) },
    { names: ['create an object', 'update it', 'delete it'], rounds: 150, measure: writeObject },
    {
      ...{ names: ['write → event of a watch at another control plane'], rounds: 10, isSeries: true },
      measure: (cluster) => deliverWatch(cluster, DELIVERIES),
    },
    // The kubelet looks once a second: times differ by a factor of three, and 40 rounds find differences of 20 % between equal clusters.
    { names: ['create a pod → Running, image in place'], rounds: 100, measure: one(startPod) },
    { names: ['a pod becomes an endpoint → its Service answers'], rounds: 20, measure: one(reachEndpoint) },
    {
      ...{ names: ['kubectl get pods, without a cache'], rounds: 16 },
      measure: one((cluster) => coldKubectl(clusters, cluster)),
    },
    { names: ['roll a deployment of 50 pods'], rounds: 4, measure: one(rollDeployment) },
  ];
}

/** Measures both clusters in each round; which of them is first alternates. */
async function alternately({ names, rounds, measure, isSeries }: Measurement, { ours, theirs }: TwoClusters) {
  const times = names.map((): Times => ({ ours: [], theirs: [] }));
  const step = async (cluster: MeasuredCluster, round: number): Promise<void> => {
    const measured = await measure(cluster, round);
    measured.forEach((ms, index) => {
      times[isSeries === true ? 0 : index]?.[cluster === ours ? 'ours' : 'theirs'].push(ms);
    });
  };
  for (let round = 0; round < rounds; round++)
    for (const cluster of round % 2 === 0 ? [theirs, ours] : [ours, theirs]) await step(cluster, round);
  return times;
}

/**
 * The ratio of the medians. The detail has the 99th percentiles. It also has the ratio between two halves of the
 * plain cluster's rounds: a result that is not larger than this noise shows no difference.
 */
function resultOf(name: string, { ours, theirs }: Times): BenchResult {
  const halves = [0, 1].map((half) => theirs.filter((_, round) => round % 2 === half));
  const noise = (of: (values: readonly number[]) => number): string => {
    const [first = NaN, second = NaN] = halves.map(of);
    return `${(Math.max(first, second) / Math.min(first, second)).toFixed(2)} ×`;
  };
  const figures = [
    `${format(median(ours))}, plain ${format(median(theirs))}`,
    ...(theirs.length < 4
      ? []
      : [
          `p99 ${format(p99(ours))}, plain ${format(p99(theirs))}, ${(p99(ours) / p99(theirs)).toFixed(2)} ×`,
          `the plain cluster against itself ${noise(median)}, p99 ${noise(p99)}`,
        ]),
  ];
  return {
    ...{ name, value: median(ours) / median(theirs), unit: '×', limit: LIMIT, runs: ours.length },
    detail: figures.join('; '),
  };
}

function format(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** `kubectl get pods --all-namespaces` as the first command of a user, who has no cache of the API's resources. */
async function coldKubectl(clusters: TwoClusters, { kubeconfig }: MeasuredCluster): Promise<number> {
  const home = await mkdtemp(join(clusters.directory, 'home-'));
  const commands = new ExecaRunner({ path: process.env['PATH'] ?? '' });
  const argv = [clusters.kubectl, 'get', 'pods', '--all-namespaces', '--kubeconfig', kubeconfig] as const;
  const startMs = performance.now();
  await commands.run({ argv, env: { HOME: home }, signal: clusters.signal });
  return performance.now() - startMs;
}
