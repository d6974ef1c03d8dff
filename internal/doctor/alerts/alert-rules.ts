import { DOCTOR_CHECKS, type DoctorCheck } from '../doctor-checks.ts';
import type { MetricAlert, Severity } from './alert.ts';
import { NODES } from './alerts.ts';

/** The recorded problems: one series for each problem, with its code and severity. The value is the figure of the check. */
export const PROBLEMS = 'cluster:doctor_problem';
/**
 * How long an alert keeps firing after its expression became false. One failed scrape makes a node look silent, and a
 * silent node hides the other problems of that node. Without this time, one failed scrape would end those alerts.
 */
const KEPT = '2m';
const SEVERITIES: readonly Severity[] = ['critical', 'warning'];

/** A rule in the form of Prometheus' rule files. */
interface RecordingRule {
  readonly record: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** See `RecordingRule`. */
export interface AlertingRule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly keep_firing_for: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A file of rules for Prometheus. Rules of a group are evaluated in their order, so alerts see the problems of the same moment. */
export interface RuleFile {
  readonly groups: readonly {
    readonly name: string;
    readonly rules: readonly (RecordingRule | AlertingRule)[];
  }[];
}

/** Not a check: without targets no other alert can fire. */
const UNWATCHED: AlertingRule = {
  alert: 'ClusterUnwatched',
  expr: `absent(up{${NODES}})`,
  for: '5m',
  keep_firing_for: KEPT,
  labels: { severity: 'critical' },
  annotations: {
    summary: 'Prometheus has no node of the cluster as a target, so no problem of a node is seen',
    fix: 'Look at the targets of Prometheus: it needs the file scrape.yaml of the chart, and the right to list nodes.',
  },
};

interface Alerting extends DoctorCheck {
  readonly alert: MetricAlert;
}

/**
 * The rules of all checks that a metric expresses: first the recording rules of the problems, then one alert for each
 * problem. An alert does not fire while another problem explains its problem.
 */
export function alertRules(checks: readonly DoctorCheck[] = DOCTOR_CHECKS): RuleFile {
  const alerting = checks.filter(isAlerting);
  const problems = alerting.flatMap((check) =>
    severitiesOf(check).map((severity): RecordingRule => ({
      record: PROBLEMS,
      expr: `${check.alert.figure} ${check.alert.is} ${check.alert.limits[severity]}`,
      labels: { code: check.code, severity },
    })),
  );
  const alerts = alerting.flatMap((check, index) =>
    severitiesOf(check).map((severity) => alertOf(check, severity, alerting.slice(0, index))),
  );
  return {
    groups: [
      { name: 'cluster-watch', rules: [UNWATCHED] },
      { name: 'cluster-doctor', rules: [...problems, ...alerts] },
    ],
  };
}

/** The name of the alert of a check, for example "ClusterEtcdMember" for doctor-etcd-member. */
export function alertNameOf({ code }: Pick<DoctorCheck, 'code'>): string {
  const words = code.replace(/^doctor-/, '').split('-');
  return `Cluster${words.map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`).join('')}`;
}

function isAlerting(check: DoctorCheck): check is Alerting {
  return !('none' in check.alert);
}

function severitiesOf({ alert }: Alerting): readonly Severity[] {
  return SEVERITIES.filter((severity) => alert.limits[severity] !== undefined);
}

function alertOf(check: Alerting, severity: Severity, before: readonly Alerting[]): AlertingRule {
  const { alert, fix, code } = check;
  return {
    alert: alertNameOf(check),
    expr: [problemsOf([check], severity), ...hiddenBy(check, severity, before)].join(' unless '),
    for: `${alert.forMinutes}m`,
    keep_firing_for: KEPT,
    labels: { code, severity },
    annotations: { summary: alert.summary, fix },
  };
}

/**
 * The PromQL operands of `unless` that hide the alert of a problem: a critical problem of the same check, and critical
 * problems of the checks that explain it, on the same node or in the whole cluster. A problem of one node never hides a
 * problem of the whole cluster. `cluster doctor` hides nothing; it only sorts.
 */
function hiddenBy(check: Alerting, severity: Severity, before: readonly Alerting[]): readonly string[] {
  const worse = severity === 'warning' && severitiesOf(check).includes('critical');
  const causes = before.filter(({ explains }) => explains.includes(check.code));
  const ofScope = (scope: MetricAlert['scope']): string =>
    problemsOf(
      causes.filter(({ alert }) => alert.scope === scope),
      'critical',
    );
  const [nodes, cluster] = [check.alert.scope === 'node' ? ofScope('node') : '', ofScope('cluster')];
  return [
    ...(worse ? [`ignoring (severity) ${problemsOf([check], 'critical')}`] : []),
    ...(nodes === '' ? [] : [`on (node) ${nodes}`]),
    ...(cluster === '' ? [] : [`on () ${cluster}`]),
  ];
}

/** The PromQL selector of the problems of these checks; an empty string if no check has this severity. */
function problemsOf(checks: readonly Alerting[], severity: Severity): string {
  const codes = checks.filter((check) => severitiesOf(check).includes(severity)).map(({ code }) => code);
  if (codes.length === 0) return '';
  return `${PROBLEMS}{code${codes.length === 1 ? '=' : '=~'}"${codes.join('|')}",severity="${severity}"}`;
}
