import { measureIdle } from './idle.ts';
import { WorkerRounds, type ManualWorkerTimes, type WorkerTimes } from './worker-rounds.ts';
import { median, ratioOf, type BenchResult } from '../result.ts';

const ROUNDS = 3;
const AT_ONCE = 5;
const TICKET_LIMIT_MS = 2_000;

interface Round {
  readonly ours: WorkerTimes;
  readonly manual: ManualWorkerTimes;
}

/**
 * Measures machines that become workers, from the ticket to Ready, alternately with workers of manual kubeadm
 * on equal machines (programs, images, `kubeadm join`). Then compares five parallel workers with one, and
 * measures the idle programs of a worker.
 */
export async function runWorkerBench(count = ROUNDS): Promise<readonly BenchResult[]> {
  await using environment = await WorkerRounds.open();
  const rounds: Round[] = [];
  for (let round = 0; round < count; round++) {
    const manual = await environment.theirs();
    const ours = await environment.ours(1);
    rounds.push({ ours, manual });
    process.stderr.write(
      `round ${round + 1}: ours ${seconds(ours.untilReadyMs)}, manual kubeadm ${seconds(wholeOf(manual))}\n`,
    );
  }
  const manyManualMs = await environment.theirsAtOnce(AT_ONCE);
  await environment.removeTheirs();
  const idle = await measureIdle(await environment.find('n2'), environment.signal, 'worker');
  const many: WorkerTimes[] = [];
  while (many.length < count) {
    await environment.renewOurs();
    many.push(await environment.ours(AT_ONCE));
    const { untilReadyMs = NaN, untilAllReadyMs = NaN } = many.at(-1) ?? {};
    process.stderr.write(`${AT_ONCE} at once: ${seconds(untilReadyMs)}, all ${seconds(untilAllReadyMs)}\n`);
  }
  return [...resultsOfOne(rounds), ...resultsOfMany(many, manyManualMs, rounds), ...idle];
}

function resultsOfOne(rounds: readonly Round[]): readonly BenchResult[] {
  const ours = rounds.map((round) => round.ours.untilReadyMs);
  const whole = rounds.map(({ manual }) => wholeOf(manual));
  const toTicket = rounds.map((round) => round.ours.untilTicketMs);
  const prepared = rounds.map(({ manual }) => manual.imagesMs + manual.untilReadyMs);
  return [
    {
      name: 'a worker, ticket to Ready, ÷ manual kubeadm join',
      ...ratioOf(ours, whole),
      limit: 1.1,
      detail: `${seconds(median(ours))}; manual kubeadm ${seconds(median(whole))}`,
    },
    {
      name: '… where kubeadm finds its programs installed and containerd running',
      ...ratioOf(ours, prepared),
      detail: `manual kubeadm ${seconds(median(prepared))}`,
    },
    {
      name: "a machine's agent, from its start to the ticket on its disk, slowest",
      value: Math.round(Math.max(...toTicket)),
      unit: 'ms',
      limit: TICKET_LIMIT_MS,
      runs: toTicket.length,
      detail: `median ${Math.round(median(toTicket))} ms; the shipped unit in a booted machine with swtpm, Node's own start included`,
    },
  ];
}

/**
 * The figures of five parallel workers compared with one. The ratio alone would mislead: it becomes worse
 * when a single worker uses the second processor, because five workers have no free processor. So the result
 * has further figures.
 */
function resultsOfMany(
  several: readonly WorkerTimes[],
  manyManualMs: number,
  rounds: readonly Round[],
): readonly BenchResult[] {
  const slowest = several.map(({ untilReadyMs }) => untilReadyMs);
  const all = several.map(({ untilAllReadyMs }) => untilAllReadyMs);
  const many = median(all);
  const cpuOfMany = median(several.map(({ cpuSeconds }) => cpuSeconds));
  const one = median(rounds.map(({ ours }) => ours.untilReadyMs));
  const manual = median(rounds.map((round) => wholeOf(round.manual)));
  const cpuOne = median(rounds.map(({ ours }) => ours.cpuSeconds));
  const cpuManual = median(rounds.map((round) => round.manual.cpuSeconds));
  return [
    {
      name: `${AT_ONCE} workers at once, the slowest from its ticket to Ready, ÷ one`,
      value: median(slowest) / one,
      unit: '×',
      limit: 2.5,
      runs: several.length,
      detail: `${slowest.map(seconds).join(', ')}; one ${seconds(one)}`,
    },
    {
      name: '… from the first ticket until all are Ready, ÷ one',
      value: many / one,
      unit: '×',
      limit: 2.5,
      detail: all.map(seconds).join(', '),
    },
    {
      name: '… ÷ one manual `kubeadm join`',
      value: many / manual,
      unit: '×',
      detail: `one with manual kubeadm ${seconds(manual)}`,
    },
    {
      name: `… ÷ ${AT_ONCE} at once with manual kubeadm`,
      value: many / manyManualMs,
      unit: '×',
      detail: `${AT_ONCE} with manual kubeadm ${seconds(manyManualMs)}, ${(manyManualMs / manual).toFixed(2)} × one with manual kubeadm`,
    },
    {
      name: `CPU time of a machine, power-on to Ready, of ${AT_ONCE} at once ÷ one with manual kubeadm`,
      value: cpuOfMany / cpuManual,
      unit: '×',
      detail: `${cpuOfMany.toFixed(1)} s each; one alone ${cpuOne.toFixed(1)} s; manual kubeadm ${cpuManual.toFixed(1)} s`,
    },
  ];
}

/** The total time of a manual worker: programs, images and join. */
function wholeOf({ programsMs, imagesMs, untilReadyMs }: ManualWorkerTimes): number {
  return programsMs + imagesMs + untilReadyMs;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
