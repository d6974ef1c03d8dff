import type { Command } from 'commander';
import type { ActionBinder } from './command.ts';

/** A command in the list of commands: enough for `--help`, without loading its file. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Loads the file whose `register` adds arguments, flags and subcommands. */
  readonly load: () => Promise<{ register(command: Command, action: ActionBinder): void }>;
}

function command(name: string, summary: string, load: CommandEntry['load']): CommandEntry {
  return { name, summary, load };
}

/** All commands in the order of `cluster --help`. The file of a command is loaded only when that command runs. */
export const COMMANDS: readonly CommandEntry[] = [
  command('config', 'generate, validate and change the configuration', () => import('../commands/config.ts')),
  command(
    'provisioning',
    'generate and validate the provisioning file of a machine',
    () => import('../commands/node/provisioning.ts'),
  ),
  command(
    'preflight',
    'check whether a machine meets the requirements of a node',
    () => import('../commands/node/preflight.ts'),
  ),
  command(
    'init',
    'create the cluster on the first machine, or resume; install its charts',
    () => import('../commands/init.ts'),
  ),
  command(
    'join',
    'tell a machine which cluster to join, and show its progress',
    () => import('../commands/node/join.ts'),
  ),
  command('status', 'show cluster status', () => import('../commands/status/status.ts')),
  command(
    'dashboard',
    'show the cluster live, on the terminal or in a browser',
    () => import('../commands/status/dashboard.ts'),
  ),
  command(
    'version',
    'show the versions of client, agents, Kubernetes and bundle',
    () => import('../commands/version.ts'),
  ),
  command(
    'doctor',
    'check every layer of the cluster, and name the likely cause of problems',
    () => import('../commands/doctor.ts'),
  ),
  command('node', 'manage nodes and join requests', () => import('../commands/node/node.ts')),
  command(
    'verify',
    'verify fresh attestation evidence of a node',
    () => import('../commands/node/verify.ts'),
  ),
  command(
    'explain',
    'explain how a machine joined, or why it could not join',
    () => import('../commands/node/explain.ts'),
  ),
  command('audit', 'show, export and verify the audit log', () => import('../commands/audit.ts')),
  command('operator', 'manage the people who may use the cluster', () => import('../commands/operator.ts')),
  command(
    'sign',
    'sign what an operator requests in a file, or the current records (owners only)',
    () => import('../commands/sign.ts'),
  ),
  command(
    'keys',
    'show and rotate the keys that all control planes share',
    () => import('../commands/keys.ts'),
  ),
  command('kubeconfig', 'print, renew or merge the kubeconfig', () => import('../commands/kubeconfig.ts')),
  command('context', 'name workspaces and choose one', () => import('../commands/context.ts')),
  command(
    'backup',
    'take, verify and list backups of the cluster',
    () => import('../commands/backup/backup.ts'),
  ),
  command(
    'restore',
    'restore a cluster from its backup onto a fresh machine',
    () => import('../commands/backup/restore.ts'),
  ),
  command('support', 'make and open support bundles', () => import('../commands/support.ts')),
  command(
    'recover',
    'recover a lost quorum, a full database, or a disk that does not open',
    () => import('../commands/recover.ts'),
  ),
  command('mini', 'run a local cluster, each node in a container', () => import('../commands/mini.ts')),
  command(
    'bundle',
    'build, download and verify the components that nodes run',
    () => import('../commands/bundle.ts'),
  ),
  command('image', 'build bootable images of machines', () => import('../commands/image/image.ts')),
  command('package', 'publish the Debian packages of this program', () => import('../commands/package.ts')),
  command(
    'attest',
    'inspect evidence, reference values and collateral',
    () => import('../commands/attest.ts'),
  ),
  command('completion', 'print a shell completion script', () => import('../commands/completion.ts')),
  command('help', 'show help for a command, exit codes or error codes', () => import('../commands/help.ts')),
];
