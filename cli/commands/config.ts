import { InvalidArgumentError, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { YES } from './texts.ts';

interface GenerateFlags {
  readonly name: string;
  readonly kubernetesVersion?: string;
  readonly node?: string;
  readonly fingerprint?: string;
  readonly local?: true;
  readonly attestation?: string;
}

interface ApplyFlags {
  readonly file?: string;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly onto?: bigint;
}

/** `cluster config …`. */
export function register(program: Command, action: ActionBinder): void {
  const config = program
    .command('config')
    .description('make, check and change the configuration of a cluster');
  config
    .command('generate')
    .description('make cluster.yaml, the owner key and the master secret; what exists is kept')
    .option('--name <name>', 'name of the cluster', 'cluster')
    .option('--kubernetes-version <version>', 'version of Kubernetes, like v1.35.4')
    .option('--node <address>', 'address of the first machine')
    .option('--fingerprint <sha256>', 'fingerprint on the console of the first machine')
    .option('--local', 'use networks for a cluster on this machine')
    .option('--attestation <kinds>', 'how machines prove themselves: tpm, machine-key, or both with a comma')
    .addHelpText(
      'after',
      `
Without --attestation a person is asked, and a program gets tpm. A machine key is nothing but a file on the machine: beside
TPMs it is admitted only when it is asked for.

Example: cluster config generate --name prod --attestation tpm`,
    )
    .action(
      action<GenerateFlags>(async (context, { node, local, attestation, ...flags }) => {
        const { runConfigGenerate } = await import('../cluster/index.ts');
        const isLocal = local === true;
        return runConfigGenerate(context, {
          ...flags,
          endpoint: node,
          local: isLocal,
          variants: attestation,
        });
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
  registerInForce(config, action);
}

/** About the configuration that the cluster itself keeps. */
function registerInForce(config: Command, action: ActionBinder): void {
  config
    .command('show')
    .description('what is in force in the cluster, who changed it last and when')
    .action(action<object>(async (context) => (await import('../nodes/index.ts')).runConfigShow(context)));
  config
    .command('apply')
    .description('take over what cluster.yaml changed since it was applied last; what others changed stays')
    .option('--file <file>', 'this file instead of cluster.yaml')
    .option('--dry-run', 'say what would change')
    .option('-y, --yes', YES)
    .option('--onto <revision>', 'the file was made from this revision of `cluster config show`', revision)
    .addHelpText(
      'after',
      '\nPlaces that somebody else changed too are named with their lines, and nothing is changed.\nExample: cluster config apply --dry-run',
    )
    .action(
      action<ApplyFlags>(async (context, { file, dryRun, yes, onto }) =>
        (await import('../nodes/index.ts')).runConfigApply(context, {
          file,
          dryRun: dryRun === true,
          yes: yes === true,
          onto,
        }),
      ),
    );
  config
    .command('edit')
    .description('change what is in force in your editor ($VISUAL, $EDITOR)')
    .action(
      action<object>(async (context) => {
        const { HostProcesses } = await import('../../internal/exec/index.ts');
        const processes = new HostProcesses({ path: context.env['PATH'] ?? '' });
        return (await import('../nodes/index.ts')).runConfigEdit(context, processes);
      }),
    );
}

function revision(text: string): bigint {
  if (!/^[0-9]{1,18}$/.test(text)) throw new InvalidArgumentError('A revision is a whole number.');
  return BigInt(text);
}
