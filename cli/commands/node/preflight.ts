import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import { usageError } from '../../app/usage.ts';
import type { PreflightCommandOptions } from '../../preflight/index.ts';
import { fingerprintValue, machineAddress } from '../flags.ts';

/** `cluster preflight`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--node <address>', 'machine to check (default: this machine)', machineAddress)
    .option('--fingerprint <sha256>', 'with --node: expected fingerprint of the machine', fingerprintValue)
    .option('--fix', 'load kernel modules and set kernel parameters; needs root')
    .addHelpText(
      'after',
      `
Without --fix nothing is changed. --fix changes neither swap nor the firewall.
The exit code is that of the first failed check.

Examples:
  cluster preflight --fix
  cluster preflight --node 10.0.0.21 --fingerprint sha256:…`,
    )
    .action(
      action<PreflightCommandOptions>(async (context, options) => {
        if (options.fingerprint !== undefined && options.node === undefined)
          throw usageError('--fingerprint needs --node', 'preflight');
        const { runPreflightCommand } = await import('../../preflight/index.ts');
        const { DiskStreams } = await import('../../../internal/file/index.ts');
        const { LinuxMachine } = await import('../../../internal/platform/index.ts');
        const local = { machine: new LinuxMachine(context.ports.files), streams: new DiskStreams() };
        return runPreflightCommand(context, local, options);
      }),
    );
}
