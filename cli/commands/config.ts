import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface GenerateFlags {
  readonly name: string;
  readonly kubernetesVersion?: string;
  readonly node?: string;
  readonly fingerprint?: string;
  readonly local?: true;
}

/** `cluster config generate|validate|schema`. */
export function register(program: Command, action: ActionBinder): void {
  const config = program.command('config').description('make and check the configuration of a cluster');
  config
    .command('generate')
    .description('make cluster.yaml, the owner key and the master secret; what exists is kept')
    .option('--name <name>', 'name of the cluster', 'cluster')
    .option('--kubernetes-version <version>', 'version of Kubernetes, like v1.35.4')
    .option('--node <address>', 'address of the first machine')
    .option('--fingerprint <sha256>', 'fingerprint on the console of the first machine')
    .option('--local', 'use networks for a cluster on this machine')
    .action(
      action<GenerateFlags>(async (context, { node, local, ...flags }) => {
        const { runConfigGenerate } = await import('../cluster/index.ts');
        return runConfigGenerate(context, { ...flags, endpoint: node, local: local === true });
      }),
    );
  config
    .command('validate')
    .description('check cluster.yaml and say what is wrong where')
    .action(
      action<object>(async (context) => (await import('../cluster/index.ts')).runConfigValidate(context)),
    );
  config
    .command('schema')
    .description('print the JSON Schema of cluster.yaml')
    .action(
      action<object>(async (context) => (await import('../cluster/index.ts')).runConfigSchema(context)),
    );
}
