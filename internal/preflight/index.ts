/**
 * Checks: the one registry of what is looked at on a machine, and of what is good.
 *
 *     collectMachineFacts (ports) ─▶ MachineFacts ─▶ judge(MACHINE_CHECKS) ─▶ CheckResult[]: code, figure, threshold, cause, fix
 *
 * It lies in internal/, because three sides use it: the agent before an init or a join, `cluster preflight` on a machine, and
 * the CLI that shows what an agent has found. Judging is pure and tells good figures too, so that a doctor, a gate or an alert
 * can use the same checks; a registry for other facts (a node, a cluster) is another list of `Check<Facts>` beside this one.
 * What a machine must have is data in node-requirements.ts, from which the agent's packages are built as well.
 */
export {
  failedChecks,
  runChecks,
  type Check,
  type CheckResult,
  type CheckStatus,
  type Repair,
} from './check.ts';
export { collectMachineFacts, type CollectOptions, type CollectPorts } from './collect-machine-facts.ts';
export { PreflightError, preflightErrors, type PreflightErrorCode } from './errors.ts';
export { MACHINE_CHECKS } from './machine-checks.ts';
export type { MachineFacts } from './machine-facts.ts';
export { findTpmProblem } from './probe-tpm.ts';
export {
  MODULES_FILE,
  modulesFile,
  REQUIRED_PROGRAMS,
  SYSCTL_FILE,
  sysctlFile,
} from './node-requirements.ts';
