import { PORTS } from '../../internal/endpoint/index.ts';
import {
  createCluster,
  ensureAgentLayer,
  ensureRootfs,
  hostRequirements,
  requireHost,
  type LocalCluster,
  type LocalNode,
  type HostPorts,
} from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';
import { debianArchitecture, findAgentPackage, packageDirectories } from './agent-package.ts';
import { MiniError } from './errors.ts';
import { FIRST_MACHINE, type PlannedMachine } from './machine-plan.ts';
import { miniPathsFrom } from './paths.ts';

const AGENT_MS = 60_000;
const POLL_MS = 200;

/** Everything that is missing here, before anything changes. */
export async function checkHost(context: CommandContext, machines: HostPorts): Promise<void> {
  await context.host.step('mini-preflight', 'Checking this machine', () =>
    requireHost(machines, {
      requirements: hostRequirements,
      directories: [context.paths.data, context.paths.cache],
      signal: context.signal,
    }),
  );
}

/** Lower directories of the machines' root file systems, top first. `agent` names a package instead of the built one. */
export async function prepareLayers(
  context: CommandContext,
  machines: HostPorts,
  agent: string | undefined,
): Promise<readonly string[]> {
  const { host, signal } = context;
  const places = miniPathsFrom(context);
  const packagePath = await findAgentPackage(context, {
    named: agent,
    architecture: await debianArchitecture(context),
    directories: packageDirectories(import.meta.dirname),
  });
  const rootfs = await host.step('mini-rootfs', 'Preparing the root file system', (progress) =>
    ensureRootfs(machines, {
      directory: places.rootfs,
      packagePath,
      onProgress: (phase) => progress.update(phase),
      signal,
    }),
  );
  const layer = await host.step('mini-agent', 'Installing the agent package', (progress) =>
    ensureAgentLayer(machines, {
      folder: places.layers,
      rootfs,
      packagePath,
      onProgress: (text) => progress.update(text),
      signal,
    }),
  );
  return [layer, rootfs];
}

/** The cluster's directory and network. */
export function claimCluster(
  context: CommandContext,
  machines: HostPorts,
  name: string,
): Promise<LocalCluster> {
  return createCluster(machines, { root: miniPathsFrom(context).root, name, signal: context.signal });
}

/** `sha256:…` of the endorsement key of each machine's TPM; made ahead, so that it can be written down who is expected. */
export async function makeTpms(
  context: CommandContext,
  cluster: LocalCluster,
  planned: readonly PlannedMachine[],
): Promise<ReadonlyMap<string, string>> {
  const title = planned.length === 1 ? 'Making a TPM' : `Making ${planned.length} TPMs`;
  return context.host.step('mini-tpm', title, async (progress) => {
    const identities = new Map<string, string>();
    for (const { name } of planned) {
      progress.update(name, { of: planned.length, value: identities.size, unit: 'steps' });
      identities.set(name, await cluster.manufactureTpm(name, context.signal));
    }
    return identities;
  });
}

/** The machines of the plan, made unless they are there. Each knows the control planes other than itself. */
export async function makeMachines(
  context: CommandContext,
  cluster: LocalCluster,
  options: {
    readonly planned: readonly PlannedMachine[];
    readonly layers: readonly string[];
    readonly ownerKeys: readonly [string];
    /** They start with empty stores and are given what they need. */
    readonly emptyStore: boolean;
  },
): Promise<readonly [LocalNode, ...LocalNode[]]> {
  const { planned, layers, ownerKeys, emptyStore } = options;
  const seed = emptyStore ? {} : { seedDirectory: miniPathsFrom(context).blobs };
  const addresses = await cluster.addressesFor(planned.map(({ name }) => name));
  const made: LocalNode[] = [];
  for (const { name } of planned) {
    const address = addresses.get(name);
    const joinEndpoints = planned
      .filter((each) => each.kind === 'control-plane' && each.name !== name && name !== FIRST_MACHINE)
      .map((each) => `${addresses.get(each.name) ?? ''}:${PORTS.join}`);
    made.push(
      (await cluster.findNode(name)) ??
        (await cluster.addNode({
          name,
          layers,
          ownerKeys,
          joinEndpoints,
          ...(address === undefined ? {} : { address }),
          ...seed,
        })),
    );
  }
  const [first, ...others] = made;
  if (first === undefined) throw new MiniError('mini-plan-invalid', 'making machines: none is planned');
  return [first, ...others];
}

/** All of them at once. The first failure is told when every one has come up or failed. */
export async function startMachines(
  context: CommandContext,
  cluster: LocalCluster,
  machines: readonly LocalNode[],
): Promise<void> {
  const [first] = machines;
  const title =
    machines.length === 1 ? `Starting machine ${first?.name ?? ''}` : `Starting ${machines.length} machines`;
  await context.host.step('mini-node', title, async (progress) => {
    await cluster.raiseInotifyLimit(machines.length, context.signal);
    await cluster.ensureSwitch(context.signal);
    let up = 0;
    const starts = await Promise.allSettled(
      machines.map(async (machine) => {
        await machine.start(context.signal);
        progress.update(`${machine.name} is up`, { of: machines.length, value: ++up, unit: 'steps' });
      }),
    );
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
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
    'mini-agent-timeout',
    `waiting for the agent of ${node.name} for ${AGENT_MS / 1000} s: its journal ends with ${stdout.trim()}`,
  );
}
