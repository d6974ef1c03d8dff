import { measureIdle } from './idle.ts';
import { WorkerRounds } from './worker-rounds.ts';
import { median, ratioOf, type BenchResult } from './result.ts';

const ROUNDS = 3;
const AT_ONCE = 5;

/**
 * A machine that becomes a worker, from its ticket to Ready, against programs, images and `kubeadm join` by hand on an
 * equal machine, in turns; then five machines at once against one, and what stays running on one.
 */
export async function runWorkerBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await using place = await WorkerRounds.open();
  const ours: number[] = [];
  const theirs: number[] = [];
  const prepared: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const hand = await place.theirs();
    theirs.push(hand.programsMs + hand.imagesMs + hand.untilReadyMs);
    prepared.push(hand.imagesMs + hand.untilReadyMs);
    ours.push(await place.ours(1));
    process.stderr.write(
      `round ${round + 1}: ours ${seconds(ours.at(-1) ?? NaN)}, by hand ${seconds(theirs.at(-1) ?? NaN)}\n`,
    );
  }
  await place.removeTheirs();
  const idle = await measureIdle(await place.find('n2'), place.signal, 'worker');
  const many = await place.ours(AT_ONCE);
  return [
    {
      name: 'a worker, ticket to Ready, ÷ kubeadm join by hand',
      ...ratioOf(ours, theirs),
      limit: 1.1,
      detail: `${seconds(median(ours))}; by hand ${seconds(median(theirs))}`,
    },
    {
      name: '… where the hand has its programs in place and containerd running',
      ...ratioOf(ours, prepared),
      detail: `by hand ${seconds(median(prepared))}`,
    },
    {
      name: `${AT_ONCE} workers at once, first ticket to last Ready, ÷ one`,
      value: many / median(ours),
      unit: '×',
      limit: 2.5,
      detail: `${seconds(many)}; one ${seconds(median(ours))}`,
    },
    ...idle,
  ];
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
