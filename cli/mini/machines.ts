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
import { MiniError } from './errors.ts';
import { placesFrom } from './places.ts';

const AGENT_MS = 60_000;
const POLL_MS = 200;

/** Everything that is missing here, before anything changes. */
export async function checkHost(context: CommandContext, machines: MachineHost): Promise<void> {
  await context.host.step('mini-preflight', 'Checking this machine', () =>
    requireHost(machines, {
      requirements: hostRequirements,
      folders: [context.paths.data, context.paths.cache],
      signal: context.signal,
    }),
  );
}

/** Lower folders of the machines' root file systems, top first. `agent` names a package instead of the built one. */
export async function prepareLayers(
  context: CommandContext,
  machines: MachineHost,
  agent: string | undefined,
): Promise<readonly string[]> {
  const { host, signal } = context;
  const places = placesFrom(context);
  const packagePath = await findAgentPackage(context, {
    named: agent,
    architecture: await debianArchitecture(context),
    folders: packageFolders(import.meta.dirname),
  });
  const rootfs = await host.step('mini-rootfs', 'Preparing the root file system', (progress) =>
    ensureRootfs(machines, { folder: places.rootfs, onProgress: (phase) => progress.update(phase), signal }),
  );
  const layer = await host.step('mini-agent', 'Installing the agent package', () =>
    ensureAgentLayer(machines, { folder: places.layers, rootfs, packagePath, signal }),
  );
  return [layer, rootfs];
}

/** The cluster's folder and network. */
export function claimCluster(
  context: CommandContext,
  machines: MachineHost,
  name: string,
): Promise<LocalCluster> {
  return createCluster(machines, { root: placesFrom(context).root, name, signal: context.signal });
}

/** The machine of that name, made unless it is there, and switched on. */
export async function startNode(
  context: CommandContext,
  cluster: LocalCluster,
  node: {
    readonly name: string;
    readonly layers: readonly string[];
    readonly ownerKeys: readonly [string];
    /** It starts with an empty store and is given what it needs. */
    readonly emptyStore: boolean;
  },
): Promise<LocalNode> {
  const { emptyStore, ...rest } = node;
  return context.host.step('mini-node', `Starting machine ${node.name}`, async () => {
    const machine =
      (await cluster.findNode(node.name)) ??
      (await cluster.addNode({ ...rest, ...(emptyStore ? {} : { seedFolder: placesFrom(context).blobs }) }));
    await machine.start(context.signal);
    return machine;
  });
}

/** The fingerprint that the agent shows; here its console is a file of this machine. */
export async function awaitAgent(context: CommandContext, node: LocalNode): Promise<string> {
  const { clock } = context.ports;
  return context.host.step('mini-agent-ready', `Waiting for the agent of ${node.name}`, async () => {
    const deadlineMs = clock.monotonicMs() + AGENT_MS;
    for (;;) {
      const fingerprint = await node.agentFingerprint();
      if (fingerprint !== undefined) return fingerprint;
      if (clock.monotonicMs() >= deadlineMs) throw await silentAgent(context, node);
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

async function silentAgent(context: CommandContext, node: LocalNode): Promise<MiniError> {
  const { stdout } = await node.exec(
    ['journalctl', '--unit=bootstrapper', '--no-pager', '--output=cat', '--lines=3'],
    { signal: context.signal, okExitCodes: [0, 1] },
  );
  return new MiniError(
    'mini-agent-silent',
    `waiting for the agent of ${node.name} for ${AGENT_MS / 1000} s: its journal ends with ${stdout.trim()}`,
  );
}
