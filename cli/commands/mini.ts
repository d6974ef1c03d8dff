import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { ImageBuilder, MiniDownOptions, MiniRestoreOptions, MiniUpOptions } from '../mini/index.ts';
import { confirmFrom, SKIP_PROMPT, withConfirmFlags, wholeNumber, type ConfirmFlags } from './flags.ts';

const useCases = () => import('../mini/index.ts');
/** cli/image uses cli/mini, so that the commands connect the two here. */
const buildImage: ImageBuilder = async (context, options) =>
  (await import('../image/index.ts')).buildMachineDisks(context, options);
const MACHINE_TYPES = ['container', 'vm'] as const;

/** `cluster mini …`: a local cluster on this machine. */
export function register(mini: Command, action: ActionBinder): void {
  const verb: Verb = (name, description) =>
    mini.command(name).description(description).option('--name <name>', 'local cluster name', 'mini');
  verb('up', 'create a local cluster, add nodes, start stopped machines, or resume')
    .option('--kubernetes-version <version>', 'Kubernetes version (default: newest supported version)')
    .option('--control-planes <n>', 'number of control-plane nodes, 1 to 7 (default: 1)', wholeNumber(1, 7))
    .option(
      '--workers <n>',
      'number of workers, 0 to 20 (default: 0, control planes run workloads)',
      wholeNumber(0, 20),
    )
    .addOption(
      new Option(
        '--ip-family <family>',
        'IP families of a new cluster: ipv4, ipv6, or dual for IPv4 and IPv6 (default: ipv4)',
      ).choices(['ipv4', 'ipv6', 'dual']),
    )
    .addOption(
      new Option(
        '--machines <type>',
        'what the machines of a new cluster are: container, or vm for virtual machines with an image and encrypted disks (default: container)',
      ).choices(MACHINE_TYPES),
    )
    .option('--nodes-only', 'create and start the machines without a cluster')
    .option('--build', 'build the component bundle first if it is missing')
    .option('--demo', 'install a sample chart and query it')
    .option('--empty-store', 'start machines without components; they receive them over the network')
    .option('--agent <file>', 'Debian package of the agent (default: newest build)')
    .addHelpText(
      'after',
      '\nA reboot of this host stops all machines: run the command again to start them.\nThe disks of containers are not encrypted.\n\nExamples:\n  One node:\n    cluster mini up\n  Three control planes and two workers:\n    cluster mini up --control-planes 3 --workers 2\n  A virtual machine with an encrypted disk:\n    cluster mini up --machines vm',
    )
    .action(
      action<MiniUpOptions>(async (context, options) =>
        (await useCases()).runMiniUp(context, options, buildImage),
      ),
    );
  withConfirmFlags(verb('down', 'delete a local cluster and all its data'), SKIP_PROMPT).action(
    action<MiniDownOptions>(async (context, options) => (await useCases()).runMiniDown(context, options)),
  );
  registerRestore(mini, action);
  registerNodeVerbs(verb, action);
  mini
    .command('ls')
    .description('list local clusters and their machines')
    .action(action(async (context) => (await useCases()).runMiniLs(context)));
  mini
    .command('preflight')
    .description('check whether this machine can run local clusters')
    .addOption(
      new Option('--machines <type>', 'what the machines are').choices(MACHINE_TYPES).default('container'),
    )
    .action(
      action<{ readonly machines: 'container' | 'vm' }>(async (context, options) =>
        (await useCases()).runMiniPreflight(context, options),
      ),
    );
}

function registerRestore(mini: Command, action: ActionBinder): void {
  mini
    .command('restore')
    .description('restore a backup onto a local machine as a drill, and compare its objects')
    .option('--name <name>', 'local cluster name', 'drill')
    .requiredOption('--from <file>', 'backup file')
    .option('--owner-key <file>', 'file with the owner key (default: the owner key of the workspace)')
    .option('--recovery-key <file>', 'file with an age identity (default: the recovery key of the owner)')
    .option('--work-dir <directory>', 'directory for the decrypted data (default: /dev/shm)')
    .option('--keep', 'keep the machine; delete it with `cluster mini down`')
    .option('--build', 'build the component bundle first if it is missing')
    .option('--agent <file>', 'Debian package of the agent (default: newest build)')
    .addHelpText(
      'after',
      `
The cluster of the backup may run: the machine is on a network of its own, and
the drill needs nothing of that cluster but the file and the owner key. It
restores the backup, compares each object with the backup by its content,
and deletes the machine unless you give --keep. Resources that Kubernetes changes by itself, such as pods and leases, are
not compared. Charts are not installed again.

Example:
  cluster mini restore --from blue.backup`,
    )
    .action(
      action<MiniRestoreOptions>(async (context, options) =>
        (await useCases()).runMiniRestore(context, options),
      ),
    );
}

type Verb = (name: string, description: string) => Command;

interface StopFlags extends ConfirmFlags {
  readonly name: string;
  readonly powerCut?: true;
}

function registerNodeVerbs(verb: Verb, action: ActionBinder): void {
  verb('exec', 'run a program on a machine')
    .argument('<node>', 'machine name')
    .argument('<program...>', 'program and its arguments, after --')
    .addHelpText('after', '\nExample:\n  cluster mini exec n1 -- kubectl get pods -A')
    .action(
      action<{ readonly name: string }>(async (context, { name }, node = '', ...program) => {
        const [file = '', ...args] = program;
        return (await useCases()).runMiniExec(context, { name, node, program: [file, ...args] });
      }),
    );
  verb('start', 'start a machine')
    .argument('<node>', 'machine name')
    .action(
      action<{ readonly name: string }>(async (context, { name }, node = '') =>
        (await useCases()).runMiniStart(context, { name, node }),
      ),
    );
  withConfirmFlags(
    verb('stop', 'shut a machine down gracefully')
      .argument('<node>', 'machine name')
      .option('--power-cut', 'cut the power of the machine instead of shutting it down'),
    SKIP_PROMPT,
  ).action(
    action<StopFlags>(async (context, { name, powerCut, ...flags }, node = '') =>
      (await useCases()).runMiniStop(context, {
        ...{ name, node, powerCut: powerCut === true },
        ...confirmFrom(flags),
      }),
    ),
  );
}
