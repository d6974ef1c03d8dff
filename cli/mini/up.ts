import {
  createCluster,
  ensureAgentLayer,
  ensureRootfs,
  hostRequirements,
  requireHost,
  type LocalCluster,
  type LocalNode,
  type MachineHost,
} from '../../internal/machines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { debianArchitecture, findAgentPackage, packageFolders } from './agent-package.ts';
import { machineHostFrom, placesFrom } from './places.ts';

export interface MiniUpOptions {
  readonly name: string;
  /** Machines only, no cluster on them. */
  readonly nodesOnly: boolean;
  /** Machines start with an empty store and are given what they need by the CLI. */
  readonly emptyStore: boolean;
  readonly agent: string | undefined;
}

/** Machines of a local cluster, made or found, switched on. */
export async function runMiniUp(context: CommandContext, options: MiniUpOptions): Promise<void> {
  const machines = machineHostFrom(context);
  await checkHost(context, machines);
  const layers = await prepareLayers(context, machines, options);
  const places = placesFrom(context);
  const cluster = await createCluster(machines, {
    root: places.root,
    name: options.name,
    signal: context.signal,
  });
  await using _lock = await cluster.lock();
  const node = await startNode(context, cluster, { layers, options, ownerKeys: [] });
  context.host.result({ cluster: cluster.name, node: node.name, address: node.address }, () =>
    [
      `Machine ${node.name} of local cluster ${cluster.name} runs at ${node.address}.`,
      `Next: cluster mini exec${nameFlag(cluster.name)} ${node.name} -- bash`,
    ].join('\n'),
  );
}

/** `--name` where it is not the default one. */
export function nameFlag(name: string): string {
  return name === 'mini' ? '' : ` --name ${name}`;
}

async function checkHost(context: CommandContext, machines: MachineHost): Promise<void> {
  await context.host.step('mini-preflight', 'Checking this machine', () =>
    requireHost(machines, {
      requirements: hostRequirements,
      folders: [context.paths.data, context.paths.cache],
      signal: context.signal,
    }),
  );
}

/** Lower folders of the machines, top first. */
async function prepareLayers(
  context: CommandContext,
  machines: MachineHost,
  options: MiniUpOptions,
): Promise<readonly string[]> {
  const { host, signal } = context;
  const places = placesFrom(context);
  const packagePath = await findAgentPackage(context, {
    named: options.agent,
    architecture: await debianArchitecture(context),
    folders: packageFolders(import.meta.dirname),
  });
  const rootfs = await host.step('mini-rootfs', 'Preparing the root file system', (progress) =>
    ensureRootfs(machines, { folder: places.rootfs, onProgress: (line) => progress.update(line), signal }),
  );
  const layer = await host.step('mini-agent', 'Installing the agent package', () =>
    ensureAgentLayer(machines, { folder: places.layers, rootfs, packagePath, signal }),
  );
  return [layer, rootfs];
}

async function startNode(
  context: CommandContext,
  cluster: LocalCluster,
  what: {
    readonly layers: readonly string[];
    readonly options: MiniUpOptions;
    readonly ownerKeys: readonly string[];
  },
): Promise<LocalNode> {
  const name = 'n1';
  return context.host.step('mini-node', `Starting machine ${name}`, async () => {
    const node =
      (await cluster.findNode(name)) ??
      (await cluster.addNode({
        name,
        layers: what.layers,
        ownerKeys: what.ownerKeys,
        ...(what.options.emptyStore ? {} : { seedFolder: placesFrom(context).blobs }),
      }));
    await node.start(context.signal);
    return node;
  });
}
