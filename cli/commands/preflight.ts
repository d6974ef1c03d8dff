import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface PreflightFlags {
  readonly node?: string;
  readonly fingerprint?: string;
  readonly fix?: true;
}

/** `cluster preflight`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('preflight')
    .description('check whether a machine can become a node; nothing is changed')
    .option('--node <address>', 'another machine, from a workstation; default: this machine')
    .option('--fingerprint <sha256>', 'with --node: the machine that is meant, as its console shows it')
    .option('--fix', 'load missing kernel modules and set kernel parameters on this machine (root)')
    .addHelpText(
      'after',
      `
The exit code is that of the first check that failed. --fix changes neither swap nor firewall.

Examples:
  cluster preflight                       on a machine
  cluster preflight --node 10.0.0.21      at a workstation, before \`cluster init\`
`,
    )
    .action(
      action<PreflightFlags>(async (context, { node, fingerprint, fix }) => {
        const { runPreflightCommand } = await import('../preflight/index.ts');
        const { DiskStreams } = await import('../../internal/file/index.ts');
        const { LinuxMachine } = await import('../../internal/platform/index.ts');
        const local = { machine: new LinuxMachine(context.ports.files), streams: new DiskStreams() };
        return runPreflightCommand(context, local, { node, fingerprint, fix: fix === true });
      }),
    );
}
