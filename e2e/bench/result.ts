import { z } from 'zod';

const resultSchema = z.strictObject({
  name: z.string().min(1),
  value: z.number().nonnegative(),
  /** `×` is a ratio within one run. Absolute times depend more on the machine than on our code. */
  unit: z.enum(['×', 'MB', 'MB/s', '%', 's', 'ms', '']),
  /** The target; absent for a figure without a target. */
  limit: z.number().nonnegative().optional(),
  wanted: z.enum(['at most', 'at least']).default('at most'),
  /** The lowest and highest of the runs; `value` is their median. */
  spread: z.tuple([z.number(), z.number()]).optional(),
  /** Number of runs. */
  runs: z.int().positive().optional(),
  /** Further figures for a reader, from which the value was computed. */
  detail: z.string(),
});

const suiteSchema = z.strictObject({
  /** The time of the measurement, RFC 3339. */
  measured: z.iso.datetime(),
  /** The machine: processors, Node, kernel. */
  machine: z.string().min(1),
  /** Other load on the machine: load average divided by the number of processors, before and after. */
  load: z.tuple([z.number().nonnegative(), z.number().nonnegative()]),
  results: z.array(resultSchema).min(1),
});

/** The content of `docs/bench.json`: the last results of each suite. */
export const reportSchema = z.strictObject({
  version: z.literal(1),
  suites: z.record(z.string(), suiteSchema),
});

export type BenchResult = z.input<typeof resultSchema>;
export type SuiteReport = z.input<typeof suiteSchema>;
export type BenchReport = z.input<typeof reportSchema>;

/** Whether the figure meets its target; true for a figure without a target. */
export function isWithin({ value, limit, wanted }: BenchResult): boolean {
  if (limit === undefined) return true;
  return wanted === 'at least' ? value >= limit : value <= limit;
}

export function formatResults(results: readonly BenchResult[]): string {
  const width = Math.max(...results.map(({ name }) => name.length));
  return results
    .map((result) => {
      const status = result.limit === undefined ? '    ' : isWithin(result) ? 'ok  ' : 'MISS';
      const target = result.limit === undefined ? '' : ` (${targetOf(result)})`;
      return `${status} ${result.name.padEnd(width)} ${amount(result, result.value)}${target}  ${result.detail}`;
    })
    .join('\n');
}

/** The target as text: "at most 2 ×". */
export function targetOf(result: BenchResult): string {
  return result.limit === undefined ? '' : `${result.wanted ?? 'at most'} ${amount(result, result.limit)}`;
}

export function amount({ unit }: Pick<BenchResult, 'unit'>, value: number): string {
  const digits = Number.isInteger(value) ? 0 : value < 0.1 ? 3 : value < 10 ? 2 : 1;
  return `${value.toFixed(digits)} ${unit}`.trim();
}

/**
 * The median of our time divided by the time of the other program in each run. A disturbance slows both
 * programs of a run.
 */
export function ratioOf(
  ours: readonly number[],
  theirs: readonly number[],
): Required<Pick<BenchResult, 'value' | 'unit' | 'spread' | 'runs'>> {
  return { ...middleOf(ours.map((value, run) => value / (theirs[run] ?? NaN))), unit: '×' };
}

export function middleOf(
  values: readonly number[],
): Required<Pick<BenchResult, 'value' | 'spread' | 'runs'>> {
  return { value: median(values), spread: [Math.min(...values), Math.max(...values)], runs: values.length };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}

/** The 99th percentile by the nearest rank. */
export function p99(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? NaN;
}
