/**
 * Domain layer: the checks of a running cluster, in one list.
 *
 *     collect (cli/doctor) ─▶ ClusterFacts ─▶ diagnose(DOCTOR_CHECKS) ─▶ Finding[] ─▶ problemsFrom: likely causes first
 *                                  │ ▲
 *                       encodeFacts ▼ │ parseFacts          a file: the same facts judged elsewhere
 *
 * Checks are pure functions of facts and use the same type `Check` as the checks of a machine (internal/preflight). A
 * fact that could not be collected is "not measured", never good.
 */
export {
  encodeFacts,
  MAX_FACTS_BYTES,
  parseFacts,
  type BackupFacts,
  type ClusterFacts,
  type EtcdContentFacts,
  type EtcdFacts,
  type EtcdMemberFacts,
  type GrowthFacts,
  type KubernetesFacts,
  type LocalFacts,
  type NodeFacts,
  type NodeMetricsFacts,
  type RecordFacts,
} from './cluster-facts.ts';
export { diagnose, problemsFrom, type Finding, type Grade } from './diagnose.ts';
export { nodeRoundTrips } from './checks/node-latency-checks.ts';
export { DOCTOR_CHECKS, LAYERS } from './doctor-checks.ts';
export { NOT_CHECKED, notCheckedIn } from './not-checked.ts';
export { judgeContent, type ContentVerdict } from './content/judge-content.ts';
export { newestComparison, type ContentComparison } from './content/newest-comparison.ts';
export { GATE_RULES, type GatedAction, type GateRule } from './gates/gate-rules.ts';
export { backupDrawbackOf, backupGateOf, gateOf, recoveryGateOf, type GatedChange } from './gates/gates.ts';
export { endingsUntil } from './endings.ts';
export { FSYNC_WARNING_MS, ROUND_TRIP_FLOOR_MS, ROUND_TRIP_WARNING_MS } from './thresholds.ts';
export { DoctorError } from './errors.ts';
export { alertNameOf, alertRules, PROBLEMS } from './alerts/alert-rules.ts';
export type { MetricAlert } from './alerts/alert.ts';
