import type { Command } from 'commander';
import type { ActionBinder } from './command.ts';

/** A command as the list of commands knows it: enough for `--help`, without loading it. */
export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  load(): Promise<{ register(program: Command, action: ActionBinder): void }>;
}

/** All commands in the order of `cluster --help`. Each file is loaded when its command is asked for. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'config',
    summary: 'make and check the configuration of a cluster',
    load: () => import('../commands/config.ts'),
  },
  {
    name: 'init',
    summary: 'make the first machine a cluster, or go on where it stopped',
    load: () => import('../commands/init.ts'),
  },
  {
    name: 'status',
    summary: 'what of the cluster is where, and in which state',
    load: () => import('../commands/status.ts'),
  },
  {
    name: 'node',
    summary: 'look at the machines of a cluster',
    load: () => import('../commands/node.ts'),
  },
  {
    name: 'kubeconfig',
    summary: 'print the kubeconfig, or merge it into your own',
    load: () => import('../commands/kubeconfig.ts'),
  },
  {
    name: 'mini',
    summary: 'a whole cluster on this machine, each node a container',
    load: () => import('../commands/mini.ts'),
  },
  {
    name: 'bundle',
    summary: 'everything that nodes are made of, as verified files',
    load: () => import('../commands/bundle.ts'),
  },
  {
    name: 'attest',
    summary: 'look at evidence, reference values and collateral, offline',
    load: () => import('../commands/attest.ts'),
  },
  {
    name: 'completion',
    summary: 'print the completion script of a shell',
    load: () => import('../commands/completion.ts'),
  },
  {
    name: 'help',
    summary: 'explain a command, the exit codes or an error code',
    load: () => import('../commands/help.ts'),
  },
];
