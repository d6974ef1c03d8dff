import { FirstNodeRounds, type ClusterTimes, type ManualNodeTimes } from './first-node.ts';
import { measureIdle, measureRestart } from './idle.ts';
import { measureNodeList } from './node-list.ts';
import { median, middleOf, ratioOf, type BenchResult } from '../result.ts';

const ROUNDS = 3;
/** Time limit until the chart answers, on one node with two otherwise idle cores. */
const ANSWER_LIMIT_S = 40;

/**
 * Creates a first node alternately with our CLI and manually with kubeadm, on equal empty machines from the
 * same bundle. The last cluster of ours stays for the measurement of its idle programs.
 */
export async function runNodeBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await using environment = await FirstNodeRounds.open();
  const ours: ClusterTimes[] = [];
  const theirs: ManualNodeTimes[] = [];
  for (let round = 0; round < rounds; round++) {
    theirs.push(await environment.theirs());
    if (round > 0) await environment.removeOurs();
    ours.push(await environment.ours());
  }
  const node = await environment.node();
  const idle = await measureIdle(node, environment.bench.signal);
  const list = await measureNodeList(environment.bench, await environment.workspace());
  const restart = await measureRestart(node, environment.bench.signal);
  return [...compared(ours, theirs), ...idle, list, restart];
}

/** Compares our times with those of kubeadm, round by round. */
export function compared(
  ours: readonly ClusterTimes[],
  theirs: readonly ManualNodeTimes[],
): readonly BenchResult[] {
  const ourInits = ours.map(({ bootedMs, apiReadyMs }) => apiReadyMs - bootedMs);
  const theirInits = theirs.map(({ programsMs, imagesMs, kubeadmMs }) => programsMs + imagesMs + kubeadmMs);
  const prepared = theirs.map(({ imagesMs, kubeadmMs }) => imagesMs + kubeadmMs);
  const ourAnswers = ours.map(({ answersMs }) => answersMs);
  const theirAnswers = theirs.map(
    ({ bootedMs, answerMs }, round) => bootedMs + (theirInits[round] ?? NaN) + answerMs,
  );
  return [
    {
      name: 'cluster init, booted node to Ready API, ÷ manual kubeadm init',
      ...ratioOf(ourInits, theirInits),
      limit: 1,
      detail: `${seconds(ourInits)}; manual kubeadm ${seconds(theirInits)}`,
    },
    {
      name: '… where kubeadm finds its programs installed and containerd running',
      ...ratioOf(ourInits, prepared),
      limit: 1.2,
      detail: `manual kubeadm ${seconds(prepared)}: images ${seconds(theirs.map(({ imagesMs }) => imagesMs))}, kubeadm ${seconds(theirs.map(({ kubeadmMs }) => kubeadmMs))}`,
    },
    {
      name: 'CPU time of the machine, power-on to Ready API, ÷ manual kubeadm',
      ...ratioOf(
        ours.map(({ cpuSeconds }) => cpuSeconds),
        theirs.map(({ cpuSeconds }) => cpuSeconds),
      ),
      detail: `${median(ours.map(({ cpuSeconds }) => cpuSeconds)).toFixed(1)} s; manual kubeadm ${median(theirs.map(({ cpuSeconds }) => cpuSeconds)).toFixed(1)} s. A busy host changes this least`,
    },
    {
      name: 'mini up --demo until the chart’s pod answers, ÷ manual kubeadm',
      ...ratioOf(ourAnswers, theirAnswers),
      limit: 1,
      detail: `${seconds(ourAnswers)}; manual kubeadm ${seconds(theirAnswers)}`,
    },
    {
      name: 'mini up --demo, one node',
      ...middleOf(ourAnswers.map((ms) => ms / 1000)),
      unit: 's',
      limit: ANSWER_LIMIT_S,
      detail: `steps: ${longestSteps(ours)}`,
    },
  ];
}

function seconds(values: readonly number[]): string {
  return `${(median(values) / 1000).toFixed(1)} s`;
}

function longestSteps(ours: readonly ClusterTimes[]): string {
  const names = [...new Set(ours.flatMap(({ steps }) => Object.keys(steps)))];
  const found = names.map((name) => ({ name, ms: median(ours.map(({ steps }) => steps[name] ?? 0)) }));
  const longest = found.toSorted((a, b) => b.ms - a.ms).slice(0, 6);
  return longest.map(({ name, ms }) => `${name} ${(ms / 1000).toFixed(1)}`).join(', ');
}
