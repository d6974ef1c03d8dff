import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { JoinOptions } from '../../cluster/index.ts';
import { usageError } from '../../app/usage.ts';
import { collectAddress, fingerprintValue, machineAddress, timeoutOption } from '../flags.ts';

type JoinFlags = Omit<JoinOptions, 'endpoints' | 'timeoutMs'> & {
  readonly endpoint?: readonly string[];
  readonly timeout: number;
};

const DEFAULT_WAIT_MS = 10 * 60 * 1000;

/** `cluster join`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--endpoint <address>', 'control-plane node: HOST or HOST:PORT; may be repeated', collectAddress)
    .option('--node <address>', 'machine to join (default: this machine; needs root)', machineAddress)
    .option('--fingerprint <sha256>', 'with --node: expected fingerprint of the machine', fingerprintValue)
    .option('--wait', 'wait until the node is running')
    .addOption(timeoutOption('time limit for --wait', DEFAULT_WAIT_MS))
    .addHelpText(
      'after',
      `
Examples:
  On the machine, for example from cloud-init:
    cluster join --endpoint 10.0.0.10 --endpoint 10.0.0.11 --wait -o json
  From a workstation:
    cluster join --node 10.0.0.21
`,
    )
    .action(
      action<JoinFlags>(async (context, { endpoint: endpoints = [], timeout: timeoutMs, ...flags }) => {
        if (flags.fingerprint !== undefined && flags.node === undefined)
          throw usageError('--fingerprint needs --node', 'join');
        const { runJoin } = await import('../../cluster/index.ts');
        return runJoin(context, { ...flags, endpoints, timeoutMs });
      }),
    );
}
