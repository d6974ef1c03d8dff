import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface InitFlags {
  readonly node?: string;
  readonly fingerprint?: string;
  readonly kubernetesVersion?: string;
  readonly skipCharts?: true;
  readonly only?: string;
}

/** `cluster init`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('init')
    .description('make the first machine a cluster, or go on where it stopped')
    .option('--node <address>', 'address of the machine, HOST or HOST:PORT')
    .option('--fingerprint <sha256>', 'fingerprint of the machine, as its console shows it')
    .option('--kubernetes-version <version>', 'instead of the one in cluster.yaml')
    .option('--skip-charts', 'install no charts, not even the network')
    .addOption(
      new Option('--only <chart>', 'install this chart and what it needs only').conflicts('skipCharts'),
    )
    .action(
      action<InitFlags>(async (context, { skipCharts, only, ...rest }) => {
        const { runInitCommand } = await import('../cluster/index.ts');
        const selected =
          only === undefined ? ({ kind: 'all' } as const) : ({ kind: 'only', name: only } as const);
        return runInitCommand(context, {
          ...rest,
          charts: skipCharts === true ? { kind: 'none' } : selected,
        });
      }),
    );
}
