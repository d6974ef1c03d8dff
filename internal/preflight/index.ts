/**
 * Domain layer: the preflight checks of a machine, in one list.
 *
 *     collectMachineFacts (ports) ─▶ MachineFacts ─▶ runChecks(MACHINE_CHECKS) ─▶ CheckResult[]
 *
 * The agent runs them before an init or a join, `cluster preflight` runs them on a machine, and the CLI shows the results of an agent.
 * Checks are pure functions of facts. Checks of a cluster are another list of `Check<Facts>` (internal/doctor). The
 * requirements of a node are data in node-requirements.ts, from which the agent's packages are built too.
 */
export {
  failed,
  failedChecks,
  runChecks,
  warned,
  type Check,
  type CheckResult,
  type CheckStatus,
  type Observation,
  type Repair,
} from './check.ts';
export { collectMachineFacts, type CollectOptions, type CollectPorts } from './collect-machine-facts.ts';
export { fixOf, PreflightError, preflightErrors, type PreflightErrorCode } from './errors.ts';
export { MACHINE_CHECKS } from './machine-checks.ts';
export { collectRunningFacts, RUNNING_CHECKS, type NodeNetwork } from './running-checks.ts';
export type { MachineFacts } from './machine-facts.ts';
export { LEAST_SPACE, neededSpace, uploadBytes, type NeededSpace } from './needed-space.ts';
export { findProblemOf, findTpmProblem } from './probe-tpm.ts';
export {
  MAX_CLOCK_OFFSET_MS,
  MODULES_FILE,
  modulesFile,
  REQUIRED_PROGRAMS,
  STATE_DISK_PROGRAMS,
  SYSCTL_FILE,
  sysctlFile,
  sysctlPath,
} from './node-requirements.ts';
