import { measureIdle } from './idle.ts';
import { WorkerRounds, type ManualWorkerTimes, type WorkerTimes } from './worker-rounds.ts';
import { median, ratioOf, type BenchResult } from '../result.ts';

const ROUNDS = 3;
const AT_ONCE = 5;
const TICKET_LIMIT_MS = 2_000;

interface Round {
  readonly ours: WorkerTimes;
  readonly byHand: ManualWorkerTimes;
}

/**
 * A machine that becomes a worker, from its ticket to Ready, against programs, images and `kubeadm join` by hand on an
 * equal machine, in turns; then five machines at once against one, and what stays running on one.
 */
export async function runWorkerBench(count = ROUNDS): Promise<readonly BenchResult[]> {
  await using place = await WorkerRounds.open();
  const rounds: Round[] = [];
  for (let round = 0; round < count; round++) {
    const byHand = await place.theirs();
    const ours = await place.ours(1);
    rounds.push({ ours, byHand });
    process.stderr.write(
      `round ${round + 1}: ours ${seconds(ours.untilReadyMs)}, by hand ${seconds(wholeOf(byHand))}\n`,
    );
  }
  const manyByHandMs = await place.theirsAtOnce(AT_ONCE);
  await place.removeTheirs();
  const idle = await measureIdle(await place.find('n2'), place.signal, 'worker');
  const many: WorkerTimes[] = [];
  while (many.length < count) {
    await place.renewOurs();
    many.push(await place.ours(AT_ONCE));
    const { untilReadyMs = NaN, untilAllReadyMs = NaN } = many.at(-1) ?? {};
    process.stderr.write(`${AT_ONCE} at once: ${seconds(untilReadyMs)}, all ${seconds(untilAllReadyMs)}\n`);
  }
  return [...resultsOfOne(rounds), ...resultsOfMany(many, manyByHandMs, rounds), ...idle];
}

function resultsOfOne(rounds: readonly Round[]): readonly BenchResult[] {
  const ours = rounds.map((round) => round.ours.untilReadyMs);
  const whole = rounds.map(({ byHand }) => wholeOf(byHand));
  const toTicket = rounds.map((round) => round.ours.untilTicketMs);
  const prepared = rounds.map(({ byHand }) => byHand.imagesMs + byHand.untilReadyMs);
  return [
    {
      name: 'a worker, ticket to Ready, ÷ kubeadm join by hand',
      ...ratioOf(ours, whole),
      limit: 1.1,
      detail: `${seconds(median(ours))}; by hand ${seconds(median(whole))}`,
    },
    {
      name: '… where the hand has its programs in place and containerd running',
      ...ratioOf(ours, prepared),
      detail: `by hand ${seconds(median(prepared))}`,
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

/** Whatever makes one faster by the second processor, which five have not, makes this ratio worse: hence the others. */
function resultsOfMany(
  several: readonly WorkerTimes[],
  manyByHandMs: number,
  rounds: readonly Round[],
): readonly BenchResult[] {
  const slowest = several.map(({ untilReadyMs }) => untilReadyMs);
  const all = several.map(({ untilAllReadyMs }) => untilAllReadyMs);
  const many = median(all);
  const cpuOfMany = median(several.map(({ cpuSeconds }) => cpuSeconds));
  const one = median(rounds.map(({ ours }) => ours.untilReadyMs));
  const byHand = median(rounds.map((round) => wholeOf(round.byHand)));
  const cpuOne = median(rounds.map(({ ours }) => ours.cpuSeconds));
  const cpuByHand = median(rounds.map((round) => round.byHand.cpuSeconds));
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
      name: '… ÷ one by `kubeadm join` by hand',
      value: many / byHand,
      unit: '×',
      detail: `one by hand ${seconds(byHand)}`,
    },
    {
      name: `… ÷ ${AT_ONCE} at once by hand`,
      value: many / manyByHandMs,
      unit: '×',
      detail: `${AT_ONCE} by hand ${seconds(manyByHandMs)}, ${(manyByHandMs / byHand).toFixed(2)} × one by hand`,
    },
    {
      name: `CPU time of a machine, power-on to Ready, of ${AT_ONCE} at once ÷ one by hand`,
      value: cpuOfMany / cpuByHand,
      unit: '×',
      detail: `${cpuOfMany.toFixed(1)} s each; one alone ${cpuOne.toFixed(1)} s; by hand ${cpuByHand.toFixed(1)} s`,
    },
  ];
}

/** Programs, images and the join. */
function wholeOf({ programsMs, imagesMs, untilReadyMs }: ManualWorkerTimes): number {
  return programsMs + imagesMs + untilReadyMs;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
