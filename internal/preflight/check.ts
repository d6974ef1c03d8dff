/** How a check ended for one subject. `skipped`: it could not be judged here, and the cause says why. */
export type CheckStatus = 'ok' | 'warning' | 'failed' | 'skipped';

/** What makes a figure good again without any harm to what else runs on the machine. */
export type Repair =
  | { readonly kind: 'load-module'; readonly module: string }
  | { readonly kind: 'set-sysctl'; readonly key: string; readonly value: string };

/** One figure of one subject beside its threshold. A check tells it also when it is good. */
export interface CheckResult {
  /** Of the error catalogue: `cluster help errors CODE` explains it. */
  readonly code: string;
  /** What was looked at: "port 6443", "/var/lib/cluster", "net.ipv4.ip_forward". */
  readonly subject: string;
  readonly status: CheckStatus;
  /** What was found. */
  readonly figure: string;
  /** What is needed. */
  readonly threshold: string;
  /** One sentence about what is wrong; empty when the figure is good. */
  readonly cause: string;
  /** What to do; empty when the figure is good. */
  readonly fix: string;
  readonly repair?: Repair;
}

/** What a check says of one subject; its code and its fix unless said come from the check. */
export interface Observation {
  readonly subject: string;
  readonly figure: string;
  readonly threshold: string;
  /** Why it is not good, and how bad that is; undefined: it is good. */
  readonly problem?:
    | {
        readonly status: Exclude<CheckStatus, 'ok'>;
        readonly cause: string;
        readonly fix?: string;
        readonly repair?: Repair;
      }
    | undefined;
}

/** One entry of a registry: pure, so that the same check serves an init, a report, a gate and an alert. */
export interface Check<Facts> {
  readonly code: string;
  /** What to do unless an observation says something better: that of the error catalogue. */
  readonly fix: string;
  readonly observe: (facts: Facts) => readonly Observation[];
}

/** What all checks of a registry say, in its order. */
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

/** Those that stop what was asked for. */
export function failedChecks(results: readonly CheckResult[]): readonly CheckResult[] {
  return results.filter(({ status }) => status === 'failed');
}
