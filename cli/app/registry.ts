import type { Command } from 'commander';
import type { ActionBinder } from './command.ts';

/** A command in the list of commands: enough for `--help`, without loading its file. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Loads the file whose `register` adds arguments, flags and subcommands. */
  load(): Promise<{ register(command: Command, action: ActionBinder): void }>;
}

/** All commands in the order of `cluster --help`. The file of a command is loaded only when that command runs. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'config',
    summary: 'generate, validate and change the configuration',
    load: () => import('../commands/config.ts'),
  },
  {
    name: 'provisioning',
    summary: 'generate and validate the provisioning file of a machine',
    load: () => import('../commands/node/provisioning.ts'),
  },
  {
    name: 'preflight',
    summary: 'check whether a machine meets the requirements of a node',
    load: () => import('../commands/node/preflight.ts'),
  },
  {
    name: 'init',
    summary: 'create the cluster on the first machine, or resume an interrupted init',
    load: () => import('../commands/init.ts'),
  },
  {
    name: 'join',
    summary: 'tell a machine which cluster to join, and show its progress',
    load: () => import('../commands/node/join.ts'),
  },
  {
    name: 'status',
    summary: 'show cluster status',
    load: () => import('../commands/status.ts'),
  },
  {
    name: 'node',
    summary: 'manage nodes and join requests',
    load: () => import('../commands/node/node.ts'),
  },
  {
    name: 'verify',
    summary: 'verify fresh attestation evidence of a node',
    load: () => import('../commands/node/verify.ts'),
  },
  {
    name: 'explain',
    summary: 'explain how a machine joined, or why it could not join',
    load: () => import('../commands/node/explain.ts'),
  },
  {
    name: 'audit',
    summary: 'show, export and verify the audit log',
    load: () => import('../commands/audit.ts'),
  },
  {
    name: 'operator',
    summary: 'manage the people who may use the cluster',
    load: () => import('../commands/operator.ts'),
  },
  {
    name: 'sign',
    summary: 'sign the current configuration, operators and control planes (owners only)',
    load: () => import('../commands/sign.ts'),
  },
  {
    name: 'keys',
    summary: 'show and rotate the keys that all control planes share',
    load: () => import('../commands/keys.ts'),
  },
  {
    name: 'kubeconfig',
    summary: 'print, renew or merge the kubeconfig',
    load: () => import('../commands/kubeconfig.ts'),
  },
  {
    name: 'recover',
    summary: 'recover a cluster that lost its quorum',
    load: () => import('../commands/recover.ts'),
  },
  {
    name: 'mini',
    summary: 'run a local cluster, each node in a container',
    load: () => import('../commands/mini.ts'),
  },
  {
    name: 'bundle',
    summary: 'build, download and verify the components that nodes run',
    load: () => import('../commands/bundle.ts'),
  },
  {
    name: 'package',
    summary: 'publish the Debian packages of this program',
    load: () => import('../commands/package.ts'),
  },
  {
    name: 'attest',
    summary: 'inspect evidence, reference values and collateral',
    load: () => import('../commands/attest.ts'),
  },
  {
    name: 'completion',
    summary: 'print a shell completion script',
    load: () => import('../commands/completion.ts'),
  },
  {
    name: 'help',
    summary: 'show help for a command, exit codes or error codes',
    load: () => import('../commands/help.ts'),
  },
];
