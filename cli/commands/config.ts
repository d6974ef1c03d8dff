import { InvalidArgumentError, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import {
  confirmFrom,
  fileDescriptor,
  fingerprintValue,
  signatureFrom,
  withConfirmFlags,
  withSignatureFlags,
  type ConfirmFlags,
  type SignatureFlags,
} from './flags.ts';

interface GenerateFlags {
  readonly name?: string;
  readonly kubernetesVersion?: string;
  readonly node?: string;
  readonly fingerprint?: string;
  readonly local?: true;
  readonly attestation?: string;
  readonly passphrase?: true;
}

interface PassphraseFlags {
  readonly remove?: true;
  readonly newPassphraseFd?: number;
}

interface ApplyFlags extends ConfirmFlags, SignatureFlags {
  readonly file?: string;
  readonly onto?: bigint;
}

const useCases = () => import('../cluster/index.ts');
const clusterUseCases = () => import('../configuration/index.ts');

/** `cluster config …`. */
export function register(config: Command, action: ActionBinder): void {
  config
    .command('generate')
    .description('create cluster.yaml, the owner key and the master secret')
    .option('--name <name>', 'cluster name (default: "cluster")')
    .option('--kubernetes-version <version>', 'Kubernetes version, such as v1.37.2')
    .option('--node <address>', 'address of the first machine')
    .option(
      '--fingerprint <sha256>',
      'fingerprint shown on the console of the first machine',
      fingerprintValue,
    )
    .option('--local', 'use network ranges for a cluster on this machine')
    .option('--attestation <kinds>', 'accepted evidence: tpm, machine-key, or both (comma-separated)')
    .option('--passphrase', 'encrypt both keys with a new passphrase')
    .addHelpText(
      'after',
      `
Existing files are not changed. Without --attestation the command prompts;
without a terminal it uses tpm. A machine key is only a file on the machine
and proves no hardware: allow it only for machines without a TPM.

Example:
  cluster config generate --name prod --attestation tpm`,
    )
    .action(
      action<GenerateFlags>(async (context, { node, local, attestation, passphrase, ...flags }) =>
        (await useCases()).runConfigGenerate(context, {
          ...flags,
          endpoint: node,
          local: local === true,
          variants: attestation,
          encrypt: passphrase === true,
        }),
      ),
    );
  registerPassphrase(config, action);
  config
    .command('validate')
    .description('validate cluster.yaml')
    .action(action(async (context) => (await useCases()).runConfigValidate(context)));
  config
    .command('schema')
    .description('print the JSON Schema of cluster.yaml')
    .action(action(async (context) => (await useCases()).runConfigSchema(context)));
  registerActive(config, action);
}

/** `cluster config passphrase`. */
function registerPassphrase(config: Command, action: ActionBinder): void {
  config
    .command('passphrase')
    .description('set, change or remove the passphrase of the keys in the workspace')
    .option('--remove', 'store the keys without a passphrase')
    .option('--new-passphrase-fd <n>', 'read the new passphrase from this descriptor', fileDescriptor)
    .addHelpText(
      'after',
      `
Encrypts the owner key, the master secret and the operator identity of the
workspace; with --identity only the operator identity. Commands ask for the passphrase
once, or read it from --passphrase-fd. If this command is interrupted, run it
again with the same passphrases.

Example:
  cluster --passphrase-fd 3 config passphrase --new-passphrase-fd 4 3<old 4<new`,
    )
    .action(
      action<PassphraseFlags>(async (context, { remove, newPassphraseFd: descriptor }) =>
        (await useCases()).runConfigPassphrase(context, { remove: remove === true, descriptor }),
      ),
    );
}

/** Subcommands for the configuration that the cluster itself keeps. */
function registerActive(config: Command, action: ActionBinder): void {
  config
    .command('show')
    .description('show the active configuration of the cluster, and its last change')
    .action(action(async (context) => (await clusterUseCases()).runConfigShow(context)));
  withSignatureFlags(
    withConfirmFlags(
      config
        .command('apply')
        .description('apply the changes made to cluster.yaml since the last apply')
        .option('--file <file>', 'use this file instead of cluster.yaml')
        .option('--onto <revision>', 'revision that the file is based on (`config show`)', revision),
    ),
  )
    .addHelpText(
      'after',
      `
Changes that other operators made are kept. If they changed the same settings,
the command lists the conflicting lines and changes nothing.

Example:
  cluster config apply --dry-run`,
    )
    .action(
      action<ApplyFlags>(async (context, { file, onto, ...flags }) => {
        const own = { ...context, ...signatureFrom(flags) };
        return (await clusterUseCases()).runConfigApply(own, { file, onto, ...confirmFrom(flags) });
      }),
    );
  config
    .command('edit')
    .description('edit the active configuration in $VISUAL or $EDITOR')
    .action(
      action(async (context) => {
        const { HostProcesses } = await import('../../internal/exec/index.ts');
        const processes = new HostProcesses({ path: context.env['PATH'] ?? '' });
        return (await clusterUseCases()).runConfigEdit(context, processes);
      }),
    );
}

function revision(text: string): bigint {
  if (!/^[0-9]{1,18}$/.test(text)) throw new InvalidArgumentError('Must be a whole number.');
  return BigInt(text);
}
