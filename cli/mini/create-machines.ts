import { formatDuration } from '../../internal/clock/index.ts';
import { formatEndpoint, PORTS, type IpFamily } from '../../internal/endpoint/index.ts';
import { readText } from '../../internal/file/index.ts';
import {
  ensureAgentLayer,
  ensureRootfs,
  hostRequirements,
  requireHost,
  vmRequirements,
  type DiskRecovery,
  type LocalCluster,
  type LocalNode,
  type HostPorts,
  type MachineType,
} from '../../internal/localmachines/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { debianArchitecture, findAgentPackage, packageDirectories } from './agent-package.ts';
import { MiniError } from './errors.ts';
import { FIRST_MACHINE, type PlannedMachine } from './machine-plan.ts';
import { miniPathsFrom } from './paths.ts';

/** An emulated machine boots in minutes. */
const AGENT_MS: Readonly<Record<MachineType, number>> = { container: 60_000, vm: 20 * 60_000 };
/** A control plane with a few pods. The root directory of an image is in memory: 0.3 GiB. */
const VM_MEMORY_MIB = 4096;
const CONSOLE_TAIL = 1500;
const MAX_CONSOLE_BYTES = 64 * 2 ** 20;
const POLL_MS = 200;

/** Writes the disk of a virtual machine. */
export type DiskWriter = (path: string, provisioning: string) => Promise<void>;

/** Builds the image that virtual machines boot. It may use the directory `work`. `agent`: see `MiniUpOptions`. */
export type ImageBuilder = (
  context: CommandContext,
  options: { readonly agent: string | undefined; readonly work: string },
) => Promise<DiskWriter>;

/** What new machines are made from. */
export type MachineSource =
  | {
      readonly type: 'container';
      /** Lower layers of the root file systems, top first. */
      readonly layers: readonly string[];
      /** Start machines without components; they receive them over the network. */
      readonly emptyStore: boolean;
    }
  | {
      readonly type: 'vm';
      readonly recovery: DiskRecovery;
      /** Called if a machine does not exist. */
      readonly buildImage: () => Promise<DiskWriter>;
    };

/** What local clusters with such machines require of this machine. */
export function requirementsOf(type: MachineType): typeof hostRequirements | typeof vmRequirements {
  return type === 'vm' ? vmRequirements : hostRequirements;
}

/** Checks that this machine can run local clusters, before anything changes. @throws LocalMachinesError */
export async function checkHost(
  context: CommandContext,
  machines: HostPorts,
  type: MachineType,
): Promise<void> {
  await context.host.step('mini-preflight', 'Checking this machine', () =>
    requireHost(machines, {
      requirements: requirementsOf(type),
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
    readonly source: MachineSource;
    readonly ownerKeys: readonly [string];
    /** The IP families of the machines, the first one first. */
    readonly families: readonly IpFamily[];
  },
): Promise<readonly [LocalNode, ...LocalNode[]]> {
  const { planned, source, ownerKeys, families } = options;
  const addresses = await cluster.addressesFor(
    planned.map(({ name }) => name),
    families,
  );
  const add = machineAdder(context, cluster, source);
  const made: LocalNode[] = [];
  for (const { name } of planned) {
    const address = addresses.get(name);
    const joinEndpoints = planned
      .filter((each) => each.kind === 'control-plane' && each.name !== name && name !== FIRST_MACHINE)
      .map((each) => formatEndpoint(addresses.get(each.name) ?? '', PORTS.join));
    const machine = {
      name,
      ownerKeys,
      joinEndpoints,
      families,
      ...(address === undefined ? {} : { address }),
    };
    made.push((await cluster.findNode(name)) ?? (await add(machine)));
  }
  const [first, ...others] = made;
  if (first === undefined) throw new MiniError('mini-plan-invalid', 'the plan contains no machine');
  return [first, ...others];
}

type NewMachine = Omit<Parameters<LocalCluster['addNode']>[0], 'layers'>;

/** Creates one machine of the type of the source. */
function machineAdder(
  context: CommandContext,
  cluster: LocalCluster,
  source: MachineSource,
): (machine: NewMachine) => Promise<LocalNode> {
  if (source.type === 'container') {
    const { layers, emptyStore } = source;
    const seed = emptyStore ? {} : { seedDirectory: miniPathsFrom(context).blobs };
    return (machine) => cluster.addNode({ ...machine, layers, ...seed });
  }
  const { recovery, buildImage } = source;
  let image: Promise<DiskWriter> | undefined;
  return async ({ families: _, ...machine }) => {
    const writeDisk = await (image ??= buildImage());
    return context.host.step('mini-disk', `Writing the disk of machine ${machine.name}`, () =>
      cluster.addVirtualNode({ ...machine, memoryMib: VM_MEMORY_MIB, recovery, writeDisk }),
    );
  };
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
    if (first?.type === 'vm') await warnOfEmulation(context, cluster);
    else await cluster.raiseInotifyLimit(machines.length, context.signal);
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

async function warnOfEmulation(context: CommandContext, cluster: LocalCluster): Promise<void> {
  if ((await cluster.accelerator(context.signal)) === 'kvm') return;
  const text =
    'KVM does not work on this machine: virtual machines are emulated, which is about ten times slower';
  context.host.warn('mini-emulated', text);
}

/** Waits for the agent's fingerprint, read from a file of a container, or from the console of a virtual machine. @throws MiniError `mini-agent-timeout` */
export async function awaitAgent(context: CommandContext, node: LocalNode): Promise<string> {
  const { clock } = context.ports;
  return context.host.step('mini-agent-ready', `Waiting for the agent of ${node.name}`, async () => {
    const deadlineMs = clock.monotonicMs() + AGENT_MS[node.type];
    for (;;) {
      const fingerprint = await node.agentFingerprint();
      if (fingerprint !== undefined) return fingerprint;
      if (clock.monotonicMs() >= deadlineMs) throw await agentTimeout(context, node);
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

async function agentTimeout(context: CommandContext, node: LocalNode): Promise<MiniError> {
  const waited = `agent of ${node.name} not ready after ${formatDuration(AGENT_MS[node.type])}`;
  if (node.type === 'vm') {
    const { console } = node.paths;
    const text = ((await readText(context.ports.files, console, MAX_CONSOLE_BYTES)) ?? '').slice(
      -CONSOLE_TAIL,
    );
    return new MiniError(
      'mini-agent-timeout',
      `${waited}; its console ${console} ends with: ${printable(text.trim())}`,
    );
  }
  const { stdout } = await node.exec(
    ['journalctl', '--unit=bootstrapper', '--no-pager', '--output=cat', '--lines=3'],
    { signal: context.signal, okExitCodes: [0, 1] },
  );
  return new MiniError('mini-agent-timeout', `${waited}; its journal ends with: ${stdout.trim()}`);
}
