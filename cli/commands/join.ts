import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface JoinFlags {
  readonly endpoint: readonly string[];
  readonly node?: string;
  readonly fingerprint?: string;
  readonly wait?: true;
  readonly timeout: string;
}

/** `cluster join`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('join')
    .description('tell a machine where its cluster is, and follow how it is let in')
    .option('--endpoint <address>', 'a control-plane node, HOST or HOST:PORT; may be repeated', collect, [])
    .option('--node <address>', 'another machine, from a workstation; default: this machine, as root')
    .option('--fingerprint <sha256>', 'with --node: the machine that is meant, as its console shows it')
    .option('--wait', 'stay until the machine is a running member')
    .option('--timeout <duration>', 'how long to wait', '10m')
    .addHelpText(
      'after',
      `
Examples:
  cluster join --endpoint 10.0.0.10 --endpoint 10.0.0.11 --wait --output json    on a machine, by automation
  cluster join --node 10.0.0.21                                                  at a workstation
`,
    )
    .action(
      action<JoinFlags>(async (context, { endpoint, node, fingerprint, wait, timeout }) => {
        const { parseDuration, runJoin } = await import('../join/index.ts');
        const timeoutMs = parseDuration(timeout);
        return runJoin(context, { endpoints: endpoint, node, fingerprint, wait: wait === true, timeoutMs });
      }),
    );
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
