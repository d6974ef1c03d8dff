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
    summary: 'make, check and change the configuration of a cluster',
    load: () => import('../commands/config.ts'),
  },
  {
    name: 'provisioning',
    summary: 'the file that a machine is given before its agent starts',
    load: () => import('../commands/provisioning.ts'),
  },
  {
    name: 'preflight',
    summary: 'check whether a machine can become a node; nothing is changed',
    load: () => import('../commands/preflight.ts'),
  },
  {
    name: 'init',
    summary: 'make the first machine a cluster, or go on where it stopped',
    load: () => import('../commands/init.ts'),
  },
  {
    name: 'join',
    summary: 'tell a machine where its cluster is, and follow how it is let in',
    load: () => import('../commands/join.ts'),
  },
  {
    name: 'status',
    summary: 'what of the cluster is where, and in which state',
    load: () => import('../commands/status.ts'),
  },
  {
    name: 'node',
    summary: 'look at the machines of a cluster, let them in, and steer them',
    load: () => import('../commands/node.ts'),
  },
  {
    name: 'verify',
    summary: 'ask a node for fresh evidence and judge it here',
    load: () => import('../commands/verify.ts'),
  },
  {
    name: 'explain',
    summary: 'how a machine came in, or why it did not',
    load: () => import('../commands/explain.ts'),
  },
  {
    name: 'audit',
    summary: 'every decision of the cluster: who, what, about whom',
    load: () => import('../commands/audit.ts'),
  },
  {
    name: 'operator',
    summary: 'who may look at the cluster, steer it, and own it',
    load: () => import('../commands/operator.ts'),
  },
  {
    name: 'sign',
    summary: 'sign what is on record: the configuration, the operators, the control planes; owners only',
    load: () => import('../commands/sign.ts'),
  },
  {
    name: 'keys',
    summary: 'the keys that all control planes share',
    load: () => import('../commands/keys.ts'),
  },
  {
    name: 'kubeconfig',
    summary: 'print the kubeconfig, renew it, or merge it into your own',
    load: () => import('../commands/kubeconfig.ts'),
  },
  {
    name: 'recover',
    summary: 'the way back when most control planes are gone',
    load: () => import('../commands/recover.ts'),
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
    name: 'package',
    summary: 'the packages of this program, for machines that install them',
    load: () => import('../commands/package.ts'),
  },
  {
    name: 'attest',
    summary: 'look at evidence, reference values and collateral',
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
