import { DAY_MS, formatDuration, HOUR_MS } from '../clock/index.ts';
import { GROWTH_MIN_MS, type GrowthSubject } from '../growth/index.ts';
import { formatBytes } from '../printable/index.ts';
import type { ClusterFacts, FileSystemFacts, GrowthFacts } from './cluster-facts.ts';

/** The directories whose file systems a kubelet reports, by the names in the facts. */
const DIRECTORIES: Readonly<Record<string, string>> = {
  'kubelet disk': '/var/lib/kubelet',
  'image disk': '/var/lib/containerd',
};

/** The growth of a disk or a database: a figure, too few measurements yet, or nothing at all. */
export type SeenGrowth =
  | { readonly kind: 'measured'; readonly bytesPerDay: number; readonly measuredMs: number }
  | { readonly kind: 'too-few'; readonly why: string }
  | { readonly kind: 'missing'; readonly why: string };

/** How fast a file system of a node fills that its kubelet reports. */
export function growthOfDisk(
  facts: ClusterFacts,
  node: string,
  { name }: Pick<FileSystemFacts, 'name'>,
): SeenGrowth {
  return growthOn(facts, node, { kind: 'filesystem', name: DIRECTORIES[name] ?? name });
}

/** How fast a file system or a database of a node fills, as its agent has measured it. */
export function growthOn({ metrics }: ClusterFacts, node: string, { kind, name }: GrowthSubject): SeenGrowth {
  const answer = metrics.find((each) => each.node === node)?.answer;
  if (answer?.ok === false) return { kind: 'missing', why: answer.error };
  const found = answer?.value.growth?.find((each) => each.kind === kind && each.name === name);
  if (answer === undefined) return { kind: 'missing', why: `the metrics of ${node} were not read` };
  if (found !== undefined) return seenFrom(found);
  const others = (answer.value.growth ?? []).toSorted((a, b) => b.measuredMs - a.measuredMs);
  // The agent measures at its start and every hour, and on a new node etcd begins after the first measurement.
  if (others[0] !== undefined && others[0].measuredMs < GROWTH_MIN_MS) return seenFrom(others[0]);
  return { kind: 'missing', why: `the agent of ${node} does not report it` };
}

function seenFrom({ measuredMs, bytesPerDay }: GrowthFacts): SeenGrowth {
  if (bytesPerDay !== undefined) return { kind: 'measured', bytesPerDay, measuredMs };
  const why =
    measuredMs < GROWTH_MIN_MS
      ? `measured for ${measuredMs < HOUR_MS ? 'less than 1h' : formatDuration(measuredMs)}: no forecast before ${formatDuration(GROWTH_MIN_MS)}`
      : `too few measurements in ${formatDuration(measuredMs)}`;
  return { kind: 'too-few', why };
}

/** When use passes a limit at this growth; undefined if it has passed the limit already, or does not grow. */
export function passesMs(
  takenMs: number,
  { leftBytes, bytesPerDay }: { readonly leftBytes: number; readonly bytesPerDay: number },
): number | undefined {
  if (leftBytes < 0 || bytesPerDay <= 0) return undefined;
  // The limit itself is allowed: it is passed after the millisecond in which it is reached.
  const inMs = Math.floor((leftBytes / bytesPerDay) * DAY_MS) + 1;
  return Number.isSafeInteger(takenMs + inMs) ? takenMs + inMs : undefined;
}

/** "1.2 GiB more each day, measured over 9d". */
export function describeGrowth({
  bytesPerDay,
  measuredMs,
}: Pick<Extract<SeenGrowth, { kind: 'measured' }>, 'bytesPerDay' | 'measuredMs'>): string {
  return `${formatBytes(Math.round(bytesPerDay))} more each day, measured over ${formatDuration(measuredMs)}`;
}
