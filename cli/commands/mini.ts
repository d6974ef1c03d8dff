import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { wholeNumber } from './numbers.ts';

interface NameFlag {
  readonly name: string;
}

interface UpFlags extends NameFlag {
  readonly controlPlanes?: number;
  readonly workers?: number;
  readonly kubernetesVersion?: string;
  readonly nodesOnly?: true;
  readonly build?: true;
  readonly demo?: true;
  readonly emptyStore?: true;
  readonly agent?: string;
}

interface DownFlags extends NameFlag {
  readonly dryRun?: true;
  readonly yes?: true;
}

interface StopFlags extends NameFlag {
  readonly powerCut?: true;
}

/** `cluster mini …`: a whole cluster on this machine. */
export function register(program: Command, action: ActionBinder): void {
  const mini = program.command('mini').description('a whole cluster on this machine, each node a container');
  const verb = (name: string, description: string): Command =>
    mini.command(name).description(description).option('--name <name>', 'name of the local cluster', 'mini');
  verb('up', 'make the cluster, or go on where it was interrupted')
    .option('--kubernetes-version <version>', 'default: the newest one that is supported')
    .option(
      '--control-planes <n>',
      '1 to 7, default 1; their etcd members keep the cluster’s state',
      wholeNumber(1, 7),
    )
    .option(
      '--workers <n>',
      '0 to 20, default 0; without any, the first machine runs workloads too',
      wholeNumber(0, 20),
    )
    .option('--nodes-only', 'make and start the machines, put no cluster on them')
    .option('--build', 'make the bundle of components first when it is not there')
    .option('--demo', 'with a sample chart that answers')
    .option('--empty-store', 'let machines start without components; they are sent what they need')
    .option('--agent <file>', 'Debian package of the agent; default: the newest one that was built')
    .addHelpText(
      'after',
      '\nExamples:\n  cluster mini up                                    one machine that is a whole cluster\n  cluster mini up --control-planes 3 --workers 2     five machines, highly available',
    )
    .action(
      action<UpFlags>(async (context, flags) => {
        const { runMiniUp } = await import('../mini/index.ts');
        return runMiniUp(context, {
          name: flags.name,
          controlPlanes: flags.controlPlanes,
          workers: flags.workers,
          kubernetesVersion: flags.kubernetesVersion,
          nodesOnly: flags.nodesOnly === true,
          emptyStore: flags.emptyStore === true,
          build: flags.build === true,
          demo: flags.demo === true,
          agent: flags.agent,
        });
      }),
    );
  registerDown(verb, action);
  registerNodeVerbs(verb, action);
  mini
    .command('ls')
    .description('local clusters and their machines')
    .action(action<object>(async (context) => (await import('../mini/index.ts')).runMiniLs(context)));
  mini
    .command('preflight')
    .description('what this machine lacks for local clusters, and the commands that bring it')
    .action(action<object>(async (context) => (await import('../mini/index.ts')).runMiniPreflight(context)));
}

function registerDown(verb: (name: string, description: string) => Command, action: ActionBinder): void {
  verb('down', 'remove the cluster and everything of it on this machine; asks at a terminal')
    .option('--dry-run', 'say what would be lost and do nothing')
    .option('-y, --yes', 'agree to what is lost without being asked')
    .action(
      action<DownFlags>(async (context, { name, dryRun, yes }) =>
        (await import('../mini/index.ts')).runMiniDown(context, {
          name,
          dryRun: dryRun === true,
          yes: yes === true,
        }),
      ),
    );
}

function registerNodeVerbs(verb: (name: string, description: string) => Command, action: ActionBinder): void {
  verb('exec', 'run a program on a machine')
    .argument('<node>')
    .argument('<program...>', 'after --')
    .action(
      action<NameFlag>(async (context, { name }, node = '', ...program) => {
        const { runMiniExec } = await import('../mini/index.ts');
        const [file = '', ...args] = program;
        return runMiniExec(context, { name, node, program: [file, ...args] });
      }),
    );
  verb('start', 'switch a machine on')
    .argument('<node>')
    .action(
      action<NameFlag>(async (context, { name }, node = '') => {
        const { runMiniStart } = await import('../mini/index.ts');
        return runMiniStart(context, { name, node });
      }),
    );
  verb('stop', 'switch a machine off in order')
    .argument('<node>')
    .option('--power-cut', 'as if the plug were pulled')
    .action(
      action<StopFlags>(async (context, { name, powerCut }, node = '') => {
        const { runMiniStop } = await import('../mini/index.ts');
        return runMiniStop(context, { name, node, powerCut: powerCut === true });
      }),
    );
}
