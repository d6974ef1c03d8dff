import {
  destroyCluster,
  findCluster,
  listClusters,
  LocalMachineError,
  type LocalCluster,
  type LocalNode,
} from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { machineHostFrom, miniPathsFrom } from './paths.ts';

/** Flags of `cluster mini down`. */
export interface MiniDownOptions {
  readonly name: string;
  readonly dryRun?: true;
  /** Skip the confirmation prompt. */
  readonly yes?: true;
}

/**
 * `cluster mini down`. Asks at a terminal only. Every other command that deletes something needs `--yes` without a terminal; this one
 * does not, because a local cluster is made to be thrown away: `mini up` creates it with one command on the same machine, the name
 * in the command line is that of a local cluster and of nothing else, and the command has no other purpose than to delete it. The
 * scripts that create local clusters delete them when they end, as with `kind delete cluster` and `k3d cluster delete`.
 */
export async function runMiniDown(context: CommandContext, options: MiniDownOptions): Promise<void> {
  const { root } = miniPathsFrom(context);
  const losses = await lossesOf(context, options.name);
  if (options.dryRun === true) return reportDryRun(context, options.name, losses);
  const yes = options.yes === true || !context.host.interactive;
  await confirmLoss(context, { doing: `deleting local cluster ${options.name}`, losses, yes });
  const removed = await context.host.step('mini-down', `Deleting local cluster ${options.name}`, () =>
    destroyCluster(machineHostFrom(context), { root, name: options.name, signal: context.signal }),
  );
  context.host.result({ cluster: options.name, removed }, () =>
    removed ? `Local cluster ${options.name} deleted.` : `No local cluster ${options.name} found.`,
  );
}

/** The data that the command would delete; empty if there is no such cluster. */
async function lossesOf(context: CommandContext, name: string): Promise<readonly string[]> {
  const { root } = miniPathsFrom(context);
  const cluster = await findCluster(machineHostFrom(context), { root, name });
  if (cluster === undefined) return [];
  const machines = await context.ports.files.list(cluster.paths.nodes);
  return [
    `machines and their disks: ${machines.join(', ') || '<none>'}`,
    `workspace with the owner key: ${cluster.paths.workspace}`,
  ];
}

function reportDryRun({ host }: CommandContext, name: string, losses: readonly string[]): void {
  host.result({ cluster: name, removed: false, dryRun: true, losses }, () =>
    losses.length === 0
      ? `No local cluster ${name} found.`
      : `Local cluster ${name} would be deleted, with:\n${renderLosses(losses)}`,
  );
}

const ANY_EXIT_CODE = Array.from({ length: 256 }, (_, code) => code);

/** `cluster mini ls`. */
export async function runMiniLs(context: CommandContext): Promise<void> {
  const clusters = await listClusters(machineHostFrom(context), miniPathsFrom(context).root);
  const rows = (await Promise.all(clusters.map((cluster) => rowsOf(context, cluster)))).flat();
  context.host.list({
    data: { machines: rows },
    items: rows,
    nameOf: ({ cluster, node }) => `${cluster}/${node}`,
    empty: 'No local clusters found. Create one with `cluster mini up`.',
    columns: [
      { title: 'CLUSTER', textOf: ({ cluster }) => cluster },
      { title: 'NODE', textOf: ({ node }) => node },
      { title: 'STATUS', textOf: ({ state }) => (state === 'on' ? 'Running' : 'Stopped') },
      { title: 'TYPE', textOf: ({ type }) => type },
      { title: 'DISK', textOf: ({ encrypted }) => (encrypted ? 'Encrypted' : 'Unencrypted') },
      { title: 'ADDRESS', textOf: ({ address }) => address },
      { title: 'TPM', textOf: ({ ekFingerprint }) => shortened(ekFingerprint) },
      { title: 'FINGERPRINT', textOf: ({ agentFingerprint }) => shortened(agentFingerprint) },
    ],
  });
  const stopped = Map.groupBy(
    rows.filter(({ state }) => state === 'off'),
    ({ cluster }) => cluster,
  );
  for (const [cluster, machines] of stopped)
    context.host.say(
      'mini-stopped',
      `Stopped machines of local cluster ${cluster}: ${machines.map(({ node }) => node).join(', ')}. \`cluster mini up --name ${cluster}\` starts them. A reboot of this host stops all machines.`,
      { cluster },
    );
}

/** `cluster mini start`. */
export async function runMiniStart(
  context: CommandContext,
  options: { readonly name: string; readonly node: string },
): Promise<void> {
  const { cluster, node } = await findNode(context, options);
  await using _lock = await cluster.lock();
  await context.host.step('mini-start', `Starting machine ${node.name}`, async () => {
    await cluster.raiseInotifyLimit((await cluster.nodes()).length, context.signal); // set again, because a reboot of the host resets it
    await node.start(context.signal);
  });
  context.host.result({ node: node.name, state: 'on' }, () => `Machine ${node.name} is running.`);
}

/** Flags of `cluster mini stop`. */
export interface MiniStopOptions {
  readonly name: string;
  readonly node: string;
  readonly powerCut: boolean;
  readonly dryRun: boolean;
  /** Skip the confirmation prompt. */
  readonly yes: boolean;
}

/** `cluster mini stop`. */
export async function runMiniStop(context: CommandContext, options: MiniStopOptions): Promise<void> {
  const { cluster, node } = await findNode(context, options);
  if (options.dryRun) return showStop(context, options);
  await confirmStop(context, options);
  await using _lock = await cluster.lock();
  const how = await context.host.step('mini-stop', `Stopping machine ${node.name}`, async () => {
    if (!options.powerCut) return node.stop(context.signal);
    await node.cutPower(context.signal);
    return 'cut' as const;
  });
  if (how === 'cut' && !options.powerCut) {
    context.host.warn('mini-stop-late', `machine ${node.name} did not shut down in time; its power was cut`);
  }
  context.host.result({ node: node.name, state: 'off', how }, () => `Machine ${node.name} is stopped.`);
}

type StopContext = Pick<CommandContext, 'host'>;

/** Confirms a power cut, at a terminal only: scripts may cut the power without `--yes`. @throws LossError */
export async function confirmStop({ host }: StopContext, options: MiniStopOptions): Promise<void> {
  const yes = options.yes || !host.interactive;
  const doing = `cutting the power of machine ${options.node}`;
  await confirmLoss({ host }, { doing, losses: lossesOfStop(options), yes });
}

/** Shows what a stop would do. */
export function showStop({ host }: StopContext, options: MiniStopOptions): void {
  const { node, powerCut, dryRun } = options;
  const losses = lossesOfStop(options);
  host.result({ node, dryRun, powerCut, losses }, () =>
    [
      `Machine ${node} would ${powerCut ? 'lose its power' : 'shut down'}. Nothing was changed.`,
      ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
    ].join('\n'),
  );
}

function lossesOfStop({ powerCut }: MiniStopOptions): readonly string[] {
  return powerCut ? ['what the machine has not written to its disk yet'] : [];
}

/** `cluster mini exec`. Returns the exit code of the program. */
export async function runMiniExec(
  context: CommandContext,
  options: { readonly name: string; readonly node: string; readonly program: readonly [string, ...string[]] },
): Promise<number> {
  const { node } = await findNode(context, options);
  return execOn(context, node, options.program);
}

/**
 * Runs a program on a machine and returns its exit code. With `-o json` its output is part of the result; otherwise it has the standard
 * streams of this process.
 */
export async function execOn(
  context: CommandContext,
  node: Pick<LocalNode, 'name' | 'exec' | 'attach'>,
  program: readonly [string, ...string[]],
): Promise<number> {
  const term = context.env['TERM'];
  if (context.host.wantsData) {
    const { exitCode, stdout, stderr } = await node.exec(program, {
      signal: context.signal,
      okExitCodes: ANY_EXIT_CODE,
    });
    context.host.result({ node: node.name, exitCode, stdout, stderr }, () => stdout);
    return exitCode;
  }
  return node.attach(program, {
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

async function rowsOf(context: CommandContext, cluster: LocalCluster) {
  return Promise.all(
    (await cluster.nodes()).map(async (node) => ({
      cluster: cluster.name,
      node: node.name,
      state: (await node.isRunning(context.signal)) ? 'on' : 'off',
      type: node.type,
      encrypted: node.type === 'vm',
      address: node.address,
      ekFingerprint: await node.ekFingerprint(),
      agentFingerprint: await node.agentFingerprint(),
    })),
  );
}

/** The first 12 digits of a fingerprint; `--output json` contains all of them. */
function shortened(fingerprint: string | undefined): string {
  return fingerprint === undefined ? '<none>' : fingerprint.slice(0, 'sha256:'.length + 12);
}
