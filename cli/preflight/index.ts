/**
 * `cluster preflight`: checks whether a machine meets the requirements of a node. The checks of internal/preflight run on this
 * machine, or on another one through its init port. Only `--fix` changes anything.
 */
export { checkThisMachine } from './local-machine.ts';
export { runPreflightCommand, type PreflightCommandOptions } from './run-preflight.ts';
