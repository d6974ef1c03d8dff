import type { CheckResult } from './kube-bench.ts';

/** A check that kube-bench leaves to people. */
interface Answered {
  readonly status: 'PASS' | 'WARN';
  /** The result on a worker, if it is another one. */
  readonly worker?: 'PASS' | 'WARN';
}

/** What docs/hardening.json says about checks. */
export interface ExpectedChecks {
  readonly failed: readonly { readonly id: string }[];
  readonly answered: Readonly<Record<string, Answered>>;
  /** Why checks pass also on a machine that has lost any one setting, by id. */
  readonly indifferent: Readonly<Record<string, string>>;
}

/** A check with another result than docs/hardening.json says. */
interface Difference {
  readonly id: string;
  readonly expected: CheckResult['status'];
  readonly found: CheckResult['status'];
}

/**
 * Compares each check with its expected result: FAIL if it is listed as failed, its recorded result if it is listed with an
 * answer, PASS otherwise. A check that is left to people turns from PASS to WARN when its setting is lost, so an answer
 * alone must not excuse a WARN.
 */
export function findDifferences(
  results: readonly CheckResult[],
  role: 'control plane' | 'worker',
  { failed, answered }: Omit<ExpectedChecks, 'indifferent'>,
): readonly Difference[] {
  const failing = new Set(failed.map(({ id }) => id));
  const expectedOf = (id: string): CheckResult['status'] => {
    if (failing.has(id)) return 'FAIL';
    const { status = 'PASS', worker } = answered[id] ?? {};
    return role === 'worker' ? (worker ?? status) : status;
  };
  return results
    .map(({ id, status }) => ({ id, expected: expectedOf(id), found: status }))
    .filter(({ expected, found }) => expected !== found);
}

/** Ids of docs/hardening.json that no run printed: checks of another benchmark. */
export function findStaleIds(
  results: readonly CheckResult[],
  { failed, answered }: Omit<ExpectedChecks, 'indifferent'>,
): readonly string[] {
  const printed = new Set(results.map(({ id }) => id));
  return [...failed.map(({ id }) => id), ...Object.keys(answered)].filter((id) => !printed.has(id));
}
