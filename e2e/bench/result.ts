/** One comparison of one run. Ratios only: absolute times say more about the machine than about us. */
export interface BenchResult {
  readonly name: string;
  /** Ours over the other's. */
  readonly ratio: number;
  /** The target, and on which side of it the ratio must be. */
  readonly limit: number;
  readonly wanted: 'at most' | 'at least';
  /** Both absolute values with their unit, for people. */
  readonly detail: string;
}

export function isWithin({ ratio, limit, wanted }: BenchResult): boolean {
  return wanted === 'at most' ? ratio <= limit : ratio >= limit;
}

export function formatResults(results: readonly BenchResult[]): string {
  const width = Math.max(...results.map(({ name }) => name.length));
  return results
    .map((result) => {
      const { name, ratio, limit, wanted, detail } = result;
      const mark = isWithin(result) ? 'ok  ' : 'MISS';
      return `${mark} ${name.padEnd(width)} ${ratio.toFixed(2)}× (${wanted} ${limit}×)  ${detail}`;
    })
    .join('\n');
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}
