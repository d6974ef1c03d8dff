import { describe, expect, test } from '@jest/globals';
import { DOCTOR_CHECKS, type DoctorCheck } from '../doctor-checks.ts';
import * as limits from '../thresholds.ts';
import type { Alert } from './alert.ts';
import { alertNameOf, alertRules, PROBLEMS, type AlertingRule } from './alert-rules.ts';
import type { CheckCode } from './alerts.ts';

/**
 * Checks that have no alert, because no metric of a node expresses them. The first test compares this list with the
 * checks, so a new check without an alert must be added here deliberately.
 */
const WITHOUT_ALERT: readonly CheckCode[] = [
  ...(['doctor-credentials', 'doctor-host-name', 'doctor-kubeconfig', 'doctor-kubernetes'] as const),
  ...(['doctor-webhook', 'doctor-api-service', 'doctor-deployment', 'doctor-namespace'] as const),
  ...([
    'doctor-machine',
    'doctor-host-service',
    'doctor-pod-network',
    'doctor-mtu',
    'doctor-name-lookup',
  ] as const),
  'doctor-evidence',
  ...(['doctor-node-pressure', 'doctor-network', 'doctor-proxy', 'doctor-dns'] as const),
  ...(['doctor-machine-network', 'doctor-machine-requirements', 'doctor-machine-units'] as const),
  ...([
    'doctor-keys',
    'doctor-servers-ca',
    'doctor-document',
    'doctor-collateral',
    'doctor-join',
    'doctor-join-service',
  ] as const),
  ...(['doctor-old-disk', 'doctor-removal-unmerged'] as const),
  ...(['doctor-backup-proof', 'doctor-disk-clear'] as const),
  ...(['doctor-pods', 'doctor-budget', 'doctor-chart', 'doctor-skew'] as const),
  ...(['doctor-kubernetes-support'] as const),
];

function check(code: CheckCode, alert: Alert, explains: readonly CheckCode[] = []): DoctorCheck {
  return {
    ...{ code, layer: 'nodes', what: '', fix: 'do it', explains, isOfMachine: false, alert },
    observe: () => [],
  };
}

function alerting(scope: 'node' | 'cluster', ...severities: readonly ('critical' | 'warning')[]): Alert {
  const figures = Object.fromEntries(severities.map((severity) => [severity, severity.length]));
  return {
    ...{ scope, figure: 'm', unit: 's', is: '>', limits: figures },
    ...{ forMinutes: 2, summary: 'It {{ $value }}' },
  };
}

const alertsOf = (checks: readonly DoctorCheck[]): readonly AlertingRule[] =>
  alertRules(checks).groups.flatMap(({ rules }) => rules.filter((rule) => 'alert' in rule));
const exprOf = (checks: readonly DoctorCheck[], code: CheckCode): readonly string[] =>
  alertsOf(checks)
    .filter(({ labels }) => labels['code'] === code)
    .map(({ expr }) => expr);
const problem = (code: string, severity: string): string =>
  `${PROBLEMS}{code${code.includes('|') ? '=~' : '='}"${code}",severity="${severity}"}`;

test('each check of the doctor has an alert, or a reason why no metric expresses it', () => {
  const without = DOCTOR_CHECKS.filter(({ alert }) => 'none' in alert).map(({ code }) => code);
  expect(without.toSorted()).toEqual(WITHOUT_ALERT.toSorted());
  for (const { alert } of DOCTOR_CHECKS) if ('none' in alert) expect(alert.none).not.toBe('');
  const names = new Set(alertsOf(DOCTOR_CHECKS).flatMap(({ labels }) => labels['code'] ?? []));
  expect(names.size).toBe(DOCTOR_CHECKS.length - without.length);
});

test.each<readonly [code: CheckCode, severity: string, threshold: number]>([
  ['doctor-clock', 'warning', limits.CLOCK_WARNING_MS / 1000],
  ['doctor-disk-space', 'critical', limits.SPACE_ERROR_SHARE],
  ['doctor-disk-space', 'warning', limits.SPACE_WARNING_SHARE],
  ['doctor-disk-growth', 'warning', limits.GROWTH_WARNING_MS / 1000],
  ['doctor-disk-growth', 'warning', limits.SPACE_ERROR_SHARE],
  ['doctor-disk-inodes', 'critical', limits.INODES_ERROR_SHARE],
  ['doctor-disk-inodes', 'warning', limits.INODES_WARNING_SHARE],
  ['doctor-etcd-size', 'warning', limits.DATABASE_WARNING_SHARE],
  ['doctor-etcd-unused', 'warning', limits.UNUSED_MIN_BYTES],
  ['doctor-certificate', 'warning', limits.CERTIFICATE_WARNING_MS / 1000],
  ['doctor-ca', 'warning', limits.CA_WARNING_MS / 1000],
  ['doctor-backup-schedule', 'warning', limits.DOCUMENT_WARNING_MS / 1000],
  ['doctor-backup', 'critical', limits.BACKUP_ERROR_PERIODS],
  ['doctor-backup', 'warning', limits.BACKUP_WARNING_PERIODS],
  ['doctor-fsync', 'warning', limits.FSYNC_WARNING_MS / 1000],
  ['doctor-latency', 'warning', limits.ROUND_TRIP_WARNING_MS / 1000],
  ['doctor-node-latency', 'warning', limits.ROUND_TRIP_WARNING_MS / 1000],
])('for %s, the %s alert has the threshold of the check', (code, severity, threshold) => {
  const rules = alertRules().groups.flatMap((group) => group.rules);
  const found = rules.find(
    (rule) => 'record' in rule && rule.labels['code'] === code && rule.labels['severity'] === severity,
  );
  expect(found?.expr.match(/[0-9.]+/g)?.map(Number)).toContain(threshold);
});

describe('alertRules()', () => {
  test('puts the recording rule of a problem before its alerting rule, which has a name, a duration and the fix of the check', () => {
    const { groups } = alertRules([check('doctor-etcd-member', alerting('node', 'critical'))]);
    expect(groups.find(({ name }) => name === 'cluster-doctor')?.rules).toEqual([
      { record: PROBLEMS, expr: 'm > 8', labels: { code: 'doctor-etcd-member', severity: 'critical' } },
      {
        alert: 'ClusterEtcdMember',
        expr: problem('doctor-etcd-member', 'critical'),
        for: '2m',
        keep_firing_for: '2m',
        labels: { code: 'doctor-etcd-member', severity: 'critical' },
        annotations: { summary: 'It {{ $value }}', fix: 'do it' },
      },
    ]);
  });

  test('hides a warning while the error of the same check is active', () => {
    const checks = [check('doctor-clock', alerting('node', 'critical', 'warning'))];
    expect(exprOf(checks, 'doctor-clock')).toEqual([
      problem('doctor-clock', 'critical'),
      `${problem('doctor-clock', 'warning')} unless ignoring (severity) ${problem('doctor-clock', 'critical')}`,
    ]);
  });

  test('hides a problem while an error that explains it is active, on the same node or in the whole cluster', () => {
    const checks = [
      check('doctor-etcd-full', alerting('cluster', 'critical'), ['doctor-kubelet', 'doctor-etcd-size']),
      check('doctor-clock', alerting('node', 'critical'), ['doctor-kubelet', 'doctor-etcd-size']),
      check('doctor-disk-space', alerting('node', 'critical', 'warning'), ['doctor-kubelet']),
      check('doctor-latency', alerting('node', 'warning'), ['doctor-kubelet']),
      check('doctor-kubelet', alerting('node', 'critical')),
      check('doctor-etcd-size', alerting('cluster', 'warning')),
      check('doctor-agent', alerting('node', 'critical'), ['doctor-kubelet']),
    ];
    expect(exprOf(checks, 'doctor-kubelet')).toEqual([
      [
        problem('doctor-kubelet', 'critical'),
        `on (node) ${problem('doctor-clock|doctor-disk-space', 'critical')}`,
        `on () ${problem('doctor-etcd-full', 'critical')}`,
      ].join(' unless '),
    ]);
    // An error on one node does not hide a problem of the whole cluster.
    expect(exprOf(checks, 'doctor-etcd-size')).toEqual([
      `${problem('doctor-etcd-size', 'warning')} unless on () ${problem('doctor-etcd-full', 'critical')}`,
    ]);
  });

  test('has an alert for a Prometheus without targets, even without any check', () => {
    expect(alertsOf([]).map(({ alert }) => alert)).toEqual(['ClusterUnwatched']);
  });

  test('names of alerts are unique', () => {
    const names = DOCTOR_CHECKS.map(alertNameOf);
    expect(new Set(names).size).toBe(names.length);
  });
});
