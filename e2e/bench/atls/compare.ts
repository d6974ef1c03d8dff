import type { Compared } from './endpoints.ts';
import { median, ratioOf, type BenchResult } from '../result.ts';

export type PerKind<T> = Record<Compared, T>;

/** What attested TLS costs against mutual TLS, slice by slice. */
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
