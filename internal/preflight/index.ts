/**
 * Domain: the preflight checks of a machine, in one list.
 *
 *     collectMachineFacts (ports) ─▶ MachineFacts ─▶ runChecks(MACHINE_CHECKS) ─▶ CheckResult[]
 *
 * The agent runs them before an init or a join, `cluster preflight` runs them on a machine, and the CLI shows the results of an agent.
 * Checks are pure functions of facts. Checks of other facts (a node, a cluster) would be another list of `Check<Facts>`. The
 * requirements of a node are data in node-requirements.ts, from which the agent's packages are built too.
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
