/**
 * `cluster preflight`: what a machine lacks before it becomes a node, told check by check. On the machine itself the checks of
 * internal/checks run here; another machine is asked over its init port. Nothing is changed unless `--fix` says so.
 */
export { PreflightCommandError, preflightCommandErrors } from './errors.ts';
export { runPreflightCommand, type PreflightCommandOptions } from './run-preflight.ts';
