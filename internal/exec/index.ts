/**
 * Child processes (a replaceable interface), with argv instead of a shell, an explicit environment and bounded output. An
 * abort signal ends them.
 */
export type { Command, CommandResult, CommandRunner } from './command.ts';
export { ExecError } from './errors.ts';
export { ExecaRunner } from './execa-runner.ts';
export { HostProcesses, OWN_PID, type ProcessPort } from './processes.ts';
