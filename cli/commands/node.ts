import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { registerNodeJoins } from './node-joins.ts';
import { registerNodeLife } from './node-life.ts';
import { wholeNumber } from './numbers.ts';

interface ListFlags {
  readonly wide?: true;
  readonly joins?: true;
  readonly removed?: true;
}

interface LogFlags {
  readonly path?: string;
  readonly exact?: true;
  readonly unit: readonly string[];
  readonly backlog: number;
  readonly follow?: true;
}

/** `cluster node …`. */
export function register(program: Command, action: ActionBinder): void {
  const node = program
    .command('node')
    .description('look at the machines of a cluster, let them in, and steer them');
  node
    .command('ls')
    .description('all nodes as the cluster records them')
    .option('--wide', 'more columns')
    .option('--joins', 'machines that have asked to join instead')
    .option('--removed', 'machines that were removed instead')
    .addHelpText(
      'after',
      '\nExamples:\n  cluster node ls --wide\n  cluster node ls --joins     who waits to be let in',
    )
    .action(
      action<ListFlags>(async (context, flags) => {
        const options = { wide: flags.wide === true };
        if (flags.removed === true) return (await import('../nodes/index.ts')).runRemovedList(context);
        if (flags.joins === true) return (await import('../nodes/index.ts')).runJoinList(context, options);
        return (await import('../cluster/index.ts')).runNodeList(context, options);
      }),
    );
  node
    .command('show')
    .description('one node: its record, certificates, and the tree of what its agent runs')
    .argument('<node>', 'name or id')
    .action(
      action<object>(async (context, _flags, name = '') =>
        (await import('../nodes/index.ts')).runNodeShow(context, name),
      ),
    );
  registerLogs(node, action);
  node
    .command('metrics')
    .description("what the node's agent, join service and etcd count, in Prometheus' format")
    .argument('<node>', 'name or id')
    .action(
      action<object>(async (context, _flags, name = '') =>
        (await import('../nodes/index.ts')).runNodeMetrics(context, name),
      ),
    );
  registerNodeJoins(node, action);
  registerNodeLife(node, action);
}

function registerLogs(node: Command, action: ActionBinder): void {
  node
    .command('logs')
    .description('what the agent of a node, one of its runnables, or units of the node say')
    .argument('<node>', 'name or id')
    .option('--path <path>', 'a runnable as `cluster node show` names it, with all below it')
    .option('--exact', 'the runnable alone, nothing below it')
    .option('--unit <name>', 'a unit of the node instead, like kubelet; may be repeated', collect, [])
    .option('--backlog <lines>', 'so many of the newest lines first', wholeNumber(0, 10_000), 100)
    .option('-f, --follow', 'go on until interrupted')
    .addHelpText(
      'after',
      '\nExamples:\n  cluster node logs n2 --path root.controlplane --follow\n  cluster node logs n2 --unit kubelet --backlog 500',
    )
    .action(
      action<LogFlags>(async (context, flags, name = '') =>
        (await import('../nodes/index.ts')).runNodeLogs(context, name, {
          path: flags.path ?? '',
          exact: flags.exact === true,
          units: flags.unit,
          backlog: flags.backlog,
          follow: flags.follow === true,
        }),
      ),
    );
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
