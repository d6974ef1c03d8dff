/** The result of a check for one subject. `skipped`: the check was not possible, and the cause says why. */
export type CheckStatus = 'ok' | 'warning' | 'failed' | 'skipped';

/** A change that makes the check pass and does no harm to other programs of the machine. */
export type Repair =
  | { readonly kind: 'load-module'; readonly module: string }
  | { readonly kind: 'set-sysctl'; readonly key: string; readonly value: string };

/** What a check has found for one subject, and what it requires. Passed checks have a result too. */
export interface CheckResult {
  /** An error code: `cluster help errors CODE` explains it. */
  readonly code: string;
  /** What was checked: "port 6443", "/var/lib/cluster", "net.ipv4.ip_forward". */
  readonly subject: string;
  readonly status: CheckStatus;
  /** The value that was found. */
  readonly figure: string;
  /** The value that is required. */
  readonly threshold: string;
  /** What is wrong, in one sentence; empty when the check has passed. */
  readonly cause: string;
  /** What to do about it; empty when the check has passed. */
  readonly fix: string;
  readonly repair?: Repair;
  /** The node that the subject belongs to, in checks of a cluster. */
  readonly node?: string;
}

/** The result of a check for one subject, without the code and the default fix of the check. */
export interface Observation {
  readonly subject: string;
  /** See `CheckResult`. */
  readonly node?: string;
  readonly figure: string;
  readonly threshold: string;
  /** Undefined: passed. */
  readonly problem?:
    | {
        readonly status: Exclude<CheckStatus, 'ok'>;
        readonly cause: string;
        readonly fix?: string;
        readonly repair?: Repair;
      }
    | undefined;
}

/** The problem of a check with a warning; undefined without a cause. */
export function warned(cause: string | undefined): Observation['problem'] {
  return cause === undefined ? undefined : { status: 'warning', cause };
}

/** The problem of a failed check; undefined without a cause. */
export function failed(cause: string | undefined): Observation['problem'] {
  return cause === undefined ? undefined : { status: 'failed', cause };
}

/** One check, as a pure function of the facts: the same check serves an init, a report and an alert. */
export interface Check<Facts> {
  readonly code: string;
  /** The default fix, from the error catalogue. */
  readonly fix: string;
  readonly observe: (facts: Facts) => readonly Observation[];
}

/** The results of all checks, in the order of the list. */
export function runChecks<Facts>(checks: readonly Check<Facts>[], facts: Facts): readonly CheckResult[] {
  return checks.flatMap(({ code, fix, observe }) =>
    observe(facts).map(({ problem, ...seen }) => {
      if (problem === undefined) return { code, ...seen, status: 'ok', cause: '', fix: '' };
      const { status, cause, repair } = problem;
      const remedy = status === 'skipped' ? '' : (problem.fix ?? fix);
      return { code, ...seen, status, cause, fix: remedy, ...(repair && { repair }) };
    }),
  );
}

/** The results that prevent an init or a join. */
export function failedChecks(results: readonly CheckResult[]): readonly CheckResult[] {
  return results.filter(({ status }) => status === 'failed');
}
