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
  const { signal } = context;
  const machines = machineHostFrom(context);
  await checkHost(context, machines);
  const layers = await prepareLayers(context, machines, options);
  const { root } = placesFrom(context);
  const cluster = await createCluster(machines, { root, name: options.name, signal });
  await using _lock = await cluster.lock();
  const ownerKeys = await ownerKeysOf(inWorkspaceOf(context, cluster), options);
  const node = await startNode(context, cluster, { layers, options, ownerKeys });
  const answer = {
    cluster: cluster.name,
    workspace: cluster.paths.workspace,
    node: node.name,
    address: node.address,
  };
  context.host.result(answer, () =>
    [
      `Machine ${node.name} of local cluster ${cluster.name} runs at ${node.address}.`,
      `Next: cluster mini exec${nameFlag(cluster.name)} ${node.name} -- bash`,
    ].join('\n'),
  );
}

/** The same run with the local cluster's own workspace. */
function inWorkspaceOf(context: CommandContext, cluster: LocalCluster): CommandContext {
  return { ...context, paths: { ...context.paths, workspace: cluster.paths.workspace } };
}

/** The workspace comes before the machines: they are provisioned with its owner key. */
async function ownerKeysOf(context: CommandContext, options: MiniUpOptions): Promise<readonly [string]> {
  return context.host.step('mini-workspace', 'Preparing the workspace', async () => {
    const { generateWorkspace } = await import('../cluster/index.ts');
    const { ownerKey } = await generateWorkspace(context, { name: options.name, local: true });
    return [ownerKey.pubKeyBase64];
  });
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
    readonly ownerKeys: readonly [string];
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
