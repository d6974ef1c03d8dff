/** Port: child processes. argv only, explicit environment, bounded output, killed with their signal. */
export type { Command, CommandResult, CommandRunner } from './command.ts';
export { ExecError, execErrors, type ExecErrorCode } from './errors.ts';
export { ExecaRunner } from './execa-runner.ts';
export { HostProcesses, type AttachedProgram, type DetachedProgram, type ProcessPort } from './processes.ts';
