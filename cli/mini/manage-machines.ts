import {
  destroyCluster,
  findCluster,
  listClusters,
  LocalMachineError,
  type LocalCluster,
  type LocalNode,
} from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatTable } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { machineHostFrom, miniPathsFrom } from './paths.ts';

export interface MiniDownOptions {
  readonly name: string;
  readonly dryRun: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
}

/** Asks only where a person can answer: a local cluster is made to be thrown away, by scripts above all. */
export async function runMiniDown(context: CommandContext, options: MiniDownOptions): Promise<void> {
  const { root } = miniPathsFrom(context);
  const losses = await lossesOf(context, options.name);
  if (options.dryRun) return tellDown(context, options.name, losses);
  const yes = options.yes || !context.host.interactive;
  await confirmLoss(context, { doing: `removing local cluster ${options.name}`, losses, yes });
  const removed = await context.host.step('mini-down', `Removing local cluster ${options.name}`, () =>
    destroyCluster(machineHostFrom(context), { root, name: options.name, signal: context.signal }),
  );
  context.host.result({ cluster: options.name, removed }, () =>
    removed ? `Local cluster ${options.name} is gone.` : `There is no local cluster ${options.name}.`,
  );
}

/** Empty where there is no such cluster. Of a damaged one only its directory is known. */
async function lossesOf(context: CommandContext, name: string): Promise<readonly string[]> {
  const { root } = miniPathsFrom(context);
  const cluster = await findCluster(machineHostFrom(context), { root, name });
  if (cluster === undefined) return [];
  const machines = await context.ports.files.list(cluster.paths.nodes);
  return [
    `its machines and all that is on them: ${machines.join(', ') || 'none yet'}`,
    `its workspace with the owner key: ${cluster.paths.workspace}`,
  ];
}

function tellDown({ host }: CommandContext, name: string, losses: readonly string[]): void {
  host.result({ cluster: name, removed: false, dryRun: true, losses }, () =>
    losses.length === 0
      ? `There is no local cluster ${name}.`
      : `Local cluster ${name} would be removed; nothing was done. This takes away:\n${renderLosses(losses)}`,
  );
}

export async function runMiniLs(context: CommandContext): Promise<void> {
  const clusters = await listClusters(machineHostFrom(context), miniPathsFrom(context).root);
  const rows = (await Promise.all(clusters.map((cluster) => rowsOf(context, cluster)))).flat();
  context.host.result(rows, () =>
    rows.length === 0
      ? 'There is no local cluster. Make one with `cluster mini up`.'
      : formatTable(
          ['CLUSTER', 'NODE', 'STATE', 'ADDRESS', 'TPM (EK)', 'AGENT KEY'],
          rows.map((row) => [
            row.cluster,
            row.node,
            row.state,
            row.address,
            shortened(row.ekFingerprint),
            shortened(row.agentFingerprint),
          ]),
        ),
  );
}

export async function runMiniStart(
  context: CommandContext,
  options: { readonly name: string; readonly node: string },
): Promise<void> {
  const { cluster, node } = await findNode(context, options);
  await using _lock = await cluster.lock();
  await context.host.step('mini-start', `Starting machine ${node.name}`, async () => {
    await cluster.raiseInotifyLimit((await cluster.nodes()).length, context.signal); // the host may have restarted
    await node.start(context.signal);
  });
  context.host.result({ node: node.name, state: 'on' }, () => `Machine ${node.name} is on.`);
}

export async function runMiniStop(
  context: CommandContext,
  options: { readonly name: string; readonly node: string; readonly powerCut: boolean },
): Promise<void> {
  const { cluster, node } = await findNode(context, options);
  await using _lock = await cluster.lock();
  const how = await context.host.step('mini-stop', `Stopping machine ${node.name}`, async () => {
    if (!options.powerCut) return node.stop(context.signal);
    await node.cutPower(context.signal);
    return 'cut' as const;
  });
  if (how === 'cut' && !options.powerCut) {
    context.host.warn('mini-stop-late', `machine ${node.name} did not power off in time; its power was cut`);
  }
  context.host.result({ node: node.name, state: 'off', how }, () => `Machine ${node.name} is off.`);
}

/** Answers the exit code of the program. */
export async function runMiniExec(
  context: CommandContext,
  options: { readonly name: string; readonly node: string; readonly program: readonly [string, ...string[]] },
): Promise<number> {
  const { node } = await findNode(context, options);
  const term = context.env['TERM'];
  return node.attach(options.program, {
    signal: context.signal,
    env: term === undefined ? {} : { TERM: term },
    terminal: context.host.interactive,
  });
}

async function findNode(
  context: CommandContext,
  options: { readonly name: string; readonly node: string },
): Promise<{ readonly cluster: LocalCluster; readonly node: LocalNode }> {
  const { root } = miniPathsFrom(context);
  const cluster = await findCluster(machineHostFrom(context), { root, name: options.name });
  if (cluster === undefined) {
    throw new LocalMachineError(
      'localmachines-cluster-not-found',
      `local cluster ${JSON.stringify(options.name)} not found in ${root}`,
    );
  }
  return { cluster, node: await cluster.node(options.node) };
}

interface NodeRow {
  readonly cluster: string;
  readonly node: string;
  readonly state: 'on' | 'off';
  readonly address: string;
  readonly ekFingerprint: string | undefined;
  readonly agentFingerprint: string | undefined;
}

async function rowsOf(context: CommandContext, cluster: LocalCluster): Promise<readonly NodeRow[]> {
  return Promise.all(
    (await cluster.nodes()).map(async (node) => ({
      cluster: cluster.name,
      node: node.name,
      state: (await node.isRunning(context.signal)) ? ('on' as const) : ('off' as const),
      address: node.address,
      ekFingerprint: await node.ekFingerprint(),
      agentFingerprint: await node.agentFingerprint(),
    })),
  );
}

/** Enough of a fingerprint to tell machines apart; `--output json` has all of it. */
function shortened(fingerprint: string | undefined): string {
  return fingerprint === undefined ? '-' : fingerprint.slice(0, 'sha256:'.length + 12);
}
