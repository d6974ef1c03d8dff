import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { InitOptions } from '../cluster/index.ts';
import { fingerprintValue } from './flags.ts';

interface InitFlags extends Omit<InitOptions, 'charts'> {
  readonly skipCharts?: true;
  readonly only?: string;
}

/** `cluster init`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--node <address>', 'address of the machine: HOST or HOST:PORT')
    .option('--fingerprint <sha256>', 'fingerprint shown on the console of the machine', fingerprintValue)
    .option('--kubernetes-version <version>', 'override the Kubernetes version of cluster.yaml')
    .option('--skip-charts', 'do not install any charts, including the pod network')
    .addOption(
      new Option('--only <chart>', 'install only this chart and its dependencies').conflicts('skipCharts'),
    )
    .action(
      action<InitFlags>(async (context, { skipCharts, only, ...rest }) => {
        const { runInitCommand } = await import('../cluster/index.ts');
        const selected =
          only === undefined ? { kind: 'all' as const } : { kind: 'only' as const, name: only };
        return runInitCommand(context, { ...rest, charts: skipCharts ? { kind: 'none' } : selected });
      }),
    );
}
