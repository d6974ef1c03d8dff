import { DAY_MS, HOUR_MS } from '../clock/index.ts';

/** The time between two measurements. */
export const MEASURE_EVERY_MS = HOUR_MS;
/** No growth is stated before this time: in an hour, a disk fills with the images of a new pod and then stays as it is. */
export const GROWTH_MIN_MS = DAY_MS;
/** Two weeks, so that a job that runs every week is in it twice. */
const HISTORY_MS = 14 * DAY_MS;
const MAX_MEASUREMENTS = HISTORY_MS / MEASURE_EVERY_MS;
/** A node that was off most of the time has too few measurements, however long ago the first one is. */
const MIN_MEASUREMENTS = 12;
/** Use that falls by more than this share of the size was freed by somebody: what was measured before says nothing about what follows. */
const FREED_SHARE = 0.05;
/** Growth that is not clearly larger than the usual distance of a measurement from the line through all of them is noise. */
const MIN_GROWTH_PER_NOISE = 4;

/** One measurement of a disk or a database. */
export interface Measured {
  readonly usedBytes: number;
  /** Of the file system, or the quota of the database. */
  readonly sizeBytes: number;
}

/** What a node remembers of one disk or database: at most `MAX_MEASUREMENTS`, all at the same size. */
export interface GrowthHistory {
  readonly sizeBytes: number;
  /** Time and used bytes, oldest first. */
  readonly measurements: readonly (readonly [atMs: number, usedBytes: number])[];
}

/** What grows: the file system of a directory, or the database of an etcd member. */
export interface GrowthSubject {
  readonly kind: 'filesystem' | 'etcd';
  /** The path of the directory, or "state" or "kubernetes". */
  readonly name: string;
}

/** The histories as a node saves them. */
export type SavedGrowth = readonly (GrowthSubject & GrowthHistory)[];

/** What the measurements tell. */
export interface Growth {
  /** From the first measurement to the last. */
  readonly measuredMs: number;
  /** 0 where the use does not grow, or not clearly; undefined while there are too few measurements. */
  readonly bytesPerDay: number | undefined;
}

/**
 * Adds a measurement. The history begins again where the earlier measurements do not belong to the same disk in the same use: its size has
 * changed, or much was freed.
 */
export function addMeasurement(
  history: GrowthHistory | undefined,
  nowMs: number,
  { usedBytes, sizeBytes }: Measured,
): GrowthHistory {
  const known = history?.sizeBytes === sizeBytes ? history.measurements : [];
  const peak = known.reduce((most, [, used]) => Math.max(most, used), 0);
  const kept = peak - usedBytes > FREED_SHARE * sizeBytes ? [] : known;
  const recent = kept.filter(([atMs]) => atMs < nowMs && nowMs - atMs < HISTORY_MS);
  return { sizeBytes, measurements: [...recent, [nowMs, usedBytes] as const].slice(-MAX_MEASUREMENTS) };
}

/** The history after the clock was set by `byMs`: the age of each measurement stays what it is. */
export function shiftHistory({ sizeBytes, measurements }: GrowthHistory, byMs: number): GrowthHistory {
  return { sizeBytes, measurements: measurements.map(([atMs, used]) => [atMs + byMs, used] as const) };
}

/**
 * The growth as the median of the slopes between all pairs of measurements (Theil and Sen). A few large files that come and go, or one step, do
 * not move it.
 */
export function growthOf({ measurements }: GrowthHistory): Growth {
  const [first, last] = [measurements[0], measurements.at(-1)];
  const measuredMs = first === undefined || last === undefined ? 0 : last[0] - first[0];
  if (measuredMs < GROWTH_MIN_MS || measurements.length < MIN_MEASUREMENTS)
    return { measuredMs, bytesPerDay: undefined };
  const perMs = median(
    measurements.flatMap(([atMs, used], index) =>
      measurements.slice(index + 1).map(([laterMs, later]) => (later - used) / (laterMs - atMs)),
    ),
  );
  const flat = measurements.map(([atMs, used]) => used - perMs * atMs);
  const level = median(flat);
  const noise = median(flat.map((each) => Math.abs(each - level)));
  // Never true for a disk that loses.
  const isClear = perMs * measuredMs > MIN_GROWTH_PER_NOISE * noise;
  return { measuredMs, bytesPerDay: isClear ? perMs * DAY_MS : 0 };
}

function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).toSorted();
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[middle - 1 + (sorted.length % 2)], sorted[middle]];
  return (low + high) / 2;
}
