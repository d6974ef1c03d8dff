import { formatDuration } from '../../internal/clock/index.ts';
import { formatEndpoint, PORTS, type IpFamily } from '../../internal/endpoint/index.ts';
import {
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

/** Checks that this machine can run local clusters, before anything changes. @throws LocalMachinesError */
export async function checkHost(context: CommandContext, machines: HostPorts): Promise<void> {
  await context.host.step('mini-preflight', 'Checking this machine', () =>
    requireHost(machines, {
      requirements: hostRequirements,
      directories: [context.paths.data, context.paths.cache],
      signal: context.signal,
    }),
  );
}

/**
 * Prepares the lower layers of the machines' root file systems (overlayfs). Returns them with the top layer
 * first.
 * @param agent path of the agent package; default: the newest build
 */
export async function prepareLayers(
  context: CommandContext,
  machines: HostPorts,
  agent: string | undefined,
): Promise<readonly string[]> {
  const { host, signal } = context;
  const paths = miniPathsFrom(context);
  const packagePath = await findAgentPackage(context, {
    path: agent,
    architecture: await debianArchitecture(context),
    directories: packageDirectories(import.meta.dirname),
  });
  const rootfs = await host.step('mini-rootfs', 'Preparing the root file system', (progress) =>
    ensureRootfs(machines, {
      directory: paths.rootfs,
      packagePath,
      onProgress: (phase) => progress.update(phase),
      signal,
    }),
  );
  const layer = await host.step('mini-agent', 'Installing the agent package', (progress) =>
    ensureAgentLayer(machines, {
      directory: paths.layers,
      rootfs,
      packagePath,
      onProgress: (text) => progress.update(text),
      signal,
    }),
  );
  return [layer, rootfs];
}

/**
 * Creates the TPMs of all machines before the machines themselves, so that the configuration can list their
 * endorsement keys.
 * @returns fingerprint of the endorsement key, "sha256:HEX", by machine name
 */
export async function createTpms(
  context: CommandContext,
  cluster: LocalCluster,
  planned: readonly PlannedMachine[],
): Promise<ReadonlyMap<string, string>> {
  const title = planned.length === 1 ? 'Creating a TPM' : `Creating ${planned.length} TPMs`;
  return context.host.step('mini-tpm', title, async (progress) => {
    const identities = new Map<string, string>();
    for (const { name } of planned) {
      progress.update(name, { of: planned.length, value: identities.size, unit: 'steps' });
      identities.set(name, await cluster.manufactureTpm(name, context.signal));
    }
    return identities;
  });
}

/** Creates the planned machines that do not exist. Each is provisioned with the other control planes as join endpoints. */
export async function createMachines(
  context: CommandContext,
  cluster: LocalCluster,
  options: {
    readonly planned: readonly PlannedMachine[];
    readonly layers: readonly string[];
    readonly ownerKeys: readonly [string];
    /** Start machines without components; they receive them over the network. */
    readonly emptyStore: boolean;
    /** The IP families of the machines, the first one first. */
    readonly families: readonly IpFamily[];
  },
): Promise<readonly [LocalNode, ...LocalNode[]]> {
  const { planned, layers, ownerKeys, emptyStore, families } = options;
  const seed = emptyStore ? {} : { seedDirectory: miniPathsFrom(context).blobs };
  const addresses = await cluster.addressesFor(
    planned.map(({ name }) => name),
    families,
  );
  const made: LocalNode[] = [];
  for (const { name } of planned) {
    const address = addresses.get(name);
    const joinEndpoints = planned
      .filter((each) => each.kind === 'control-plane' && each.name !== name && name !== FIRST_MACHINE)
      .map((each) => formatEndpoint(addresses.get(each.name) ?? '', PORTS.join));
    made.push(
      (await cluster.findNode(name)) ??
        (await cluster.addNode({
          name,
          layers,
          ownerKeys,
          joinEndpoints,
          families,
          ...(address === undefined ? {} : { address }),
          ...seed,
        })),
    );
  }
  const [first, ...others] = made;
  if (first === undefined) throw new MiniError('mini-plan-invalid', 'the plan contains no machine');
  return [first, ...others];
}

/** Starts all machines in parallel. Returns those that did not run. Throws the first failure after all have started or failed. */
export async function startMachines(
  context: CommandContext,
  cluster: LocalCluster,
  machines: readonly LocalNode[],
): Promise<readonly LocalNode[]> {
  const running = await Promise.all(machines.map((machine) => machine.isRunning(context.signal)));
  const stopped = machines.filter((_, index) => running[index] !== true);
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
        progress.update(`${machine.name} is running`, { of: machines.length, value: ++up, unit: 'steps' });
      }),
    );
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
  });
  return stopped;
}

/** Waits for the agent's fingerprint, read from the console of the machine, which is a file here. @throws MiniError `mini-agent-timeout` */
export async function awaitAgent(context: CommandContext, node: LocalNode): Promise<string> {
  const { clock } = context.ports;
  return context.host.step('mini-agent-ready', `Waiting for the agent of ${node.name}`, async () => {
    const deadlineMs = clock.monotonicMs() + AGENT_MS;
    for (;;) {
      const fingerprint = await node.agentFingerprint();
      if (fingerprint !== undefined) return fingerprint;
      if (clock.monotonicMs() >= deadlineMs) throw await agentTimeout(context, node);
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

async function agentTimeout(context: CommandContext, node: LocalNode): Promise<MiniError> {
  const { stdout } = await node.exec(
    ['journalctl', '--unit=bootstrapper', '--no-pager', '--output=cat', '--lines=3'],
    { signal: context.signal, okExitCodes: [0, 1] },
  );
  return new MiniError(
    'mini-agent-timeout',
    `agent of ${node.name} not ready after ${formatDuration(AGENT_MS)}; its journal ends with: ${stdout.trim()}`,
  );
}
