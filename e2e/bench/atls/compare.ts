import type { Compared } from './endpoints.ts';
import { median, ratioOf, type BenchResult } from '../result.ts';

export type PerKind<T> = Record<Compared, T>;

/** The ratio of the cost of attested TLS to the cost of mutual TLS, round by round. */
export function compared(
  name: string,
  values: PerKind<readonly number[]>,
  limit: number,
  unit: string,
): BenchResult {
  const [ours, theirs] = [median(values.atls), median(values.mtls)];
  const detail = `aTLS ${ours.toFixed(2)} ${unit}, mTLS ${theirs.toFixed(2)} ${unit}`;
  return { name, ...ratioOf(values.atls, values.mtls), limit, wanted: 'at most', detail };
}
