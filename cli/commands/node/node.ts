import { Option, type Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { LogOptions } from '../../nodes/index.ts';
import { usageError } from '../../app/usage.ts';
import { collect, WATCH_FLAG, wholeNumber } from '../flags.ts';
import { registerNodeJoins } from './node-joins.ts';
import { registerNodeLifecycle } from './node-lifecycle.ts';

interface ListFlags {
  readonly wide?: boolean;
  readonly joins?: true;
  readonly removed?: true;
  readonly watch?: true;
  readonly selector?: string;
}

interface LogFlags extends Partial<LogOptions> {
  readonly unit?: readonly string[];
  readonly backlog: number;
}

const useCases = () => import('../../nodes/index.ts');

/** `cluster node …`. */
export function register(node: Command, action: ActionBinder): void {
  node
    .command('ls')
    .description('list nodes, join requests or removed machines')
    .option('--wide', 'show more columns, like -o wide')
    .option('-l, --selector <labels>', 'only nodes with these labels: KEY=VALUE,KEY!=VALUE,KEY,!KEY')
    .addOption(new Option('--joins', 'list machines that asked to join').conflicts('selector'))
    .addOption(new Option('--removed', 'list removed machines').conflicts(['joins', 'selector']))
    .option(...WATCH_FLAG)
    .addHelpText(
      'after',
      `
Examples:
  cluster node ls -o wide
  cluster node ls -l zone=a -o name
  cluster node ls --joins --watch`,
    )
    .action(
      action<ListFlags>(async (context, { wide = false, joins, removed, watch, selector }) => {
        const { parseSelector, runNodeList, watchResult } = await import('../../cluster/index.ts');
        const wanted = selector === undefined ? () => true : parseSelector(selector);
        if (wanted === undefined)
          throw usageError(`invalid label selector ${JSON.stringify(selector)}`, 'node ls');
        const show = async (): Promise<void> => {
          if (removed === true) return (await useCases()).runRemovedList(context);
          if (joins === true) return (await useCases()).runJoinList(context, { wide });
          return runNodeList(context, { wide, wanted });
        };
        return watch === true ? watchResult(context, show) : show();
      }),
    );
  node
    .command('show')
    .description('show a node: record, certificates and running components')
    .argument('<node>', 'node name or ID')
    .action(action(async (context, _flags, name = '') => (await useCases()).runNodeShow(context, name)));
  registerLogs(node, action);
  node
    .command('metrics')
    .description('print metrics of a node in the Prometheus text format')
    .argument('<node>', 'node name or ID')
    .action(action(async (context, _flags, name = '') => (await useCases()).runNodeMetrics(context, name)));
  registerNodeJoins(node, action);
  registerNodeLifecycle(node, action);
}

function registerLogs(node: Command, action: ActionBinder): void {
  node
    .command('logs')
    .description('print logs of the agent, of systemd units or of the API server of a node')
    .argument('<node>', 'node name or ID')
    .option('--path <path>', 'component of the agent, as listed by `node show`, and its children')
    .option('--exact', 'with --path: without the children')
    .option('--unit <name>', 'systemd unit, such as kubelet; may be repeated', collect)
    .option('--audit', 'requests to the API server of a control plane, as JSON lines')
    .option('--backlog <lines>', 'number of recent lines to show', wholeNumber(0, 10_000), 100)
    .option('-f, --follow', 'print new lines until interrupted')
    .addHelpText(
      'after',
      `
Examples:
  cluster node logs n2 --path root.controlplane --follow
  cluster node logs n2 --unit kubelet --backlog 500
  cluster node logs n1 --audit --follow`,
    )
    .action(
      action<LogFlags>(async (context, flags, name = '') => {
        const { path = '', exact = false, unit: units = [], audit = false, backlog, follow = false } = flags;
        const options = { path, exact, units, audit, backlog, follow };
        return (await useCases()).runNodeLogs(context, name, options);
      }),
    );
}
