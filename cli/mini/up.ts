import { join } from 'node:path';
import { endorsementKeyIdentity } from '../../internal/attestation/index.ts';
import { recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import type { LocalFamilies } from '../../internal/config/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import {
  createCluster,
  parseName,
  type DiskRecovery,
  type LocalCluster,
  type LocalNode,
  type MachineType,
} from '../../internal/localmachines/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { approvalKeyOfOwner } from '../../internal/statedisk/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { OwnerKey } from '../workspace/index.ts';
import type { JoiningMachine } from './await-members.ts';
import { localAttestation } from './attestation.ts';
import { askDemo, demoChart } from './demo.ts';
import {
  chooseType,
  planMachines,
  readMachinePlan,
  saveMachinePlan,
  type PlannedMachine,
} from './machine-plan.ts';
import {
  awaitAgent,
  checkHost,
  createMachines,
  createTpms,
  prepareLayers,
  startMachines,
  type ImageBuilder,
  type MachineSource,
} from './create-machines.ts';
import { readFamilies } from './ip-families.ts';
import { MiniError } from './errors.ts';
import { machineHostFrom, miniPathsFrom } from './paths.ts';

/** Time limit for all machines together; they join in parallel. Emulated machines are slow. */
const MEMBERS_MS: Readonly<Record<MachineType, number>> = { container: 20 * 60_000, vm: 60 * 60_000 };

/** Flags of `cluster mini up`. */
export interface MiniUpOptions {
  readonly name: string;
  /** Minimum number; undefined: the existing number, or one for a new cluster. */
  readonly controlPlanes?: number;
  /** Minimum number; undefined: the existing number. */
  readonly workers?: number;
  readonly kubernetesVersion?: string;
  /** IP families of a new cluster; undefined: those of the existing one, or IPv4. */
  readonly ipFamily?: LocalFamilies;
  /** What the machines are; undefined: what those of the existing cluster are, or containers. */
  readonly machines?: MachineType;
  /** Create the machines without a cluster. */
  readonly nodesOnly?: true;
  /** Start machines without components; they receive them from the CLI and from one another. */
  readonly emptyStore?: true;
  /** Build the bundle if it is missing. */
  readonly build?: true;
  /** Install the sample chart and query it. */
  readonly demo?: true;
  /** Path of the agent's Debian package; undefined: the newest build. */
  readonly agent?: string;
}

/**
 * `cluster mini up`: creates a local cluster, or what is missing of it. All machines start at once; the first one gets a normal
 * `init`, the others join by themselves. Running it again resumes, starts machines that do not run (after a reboot of this host,
 * none does), or reports that nothing had to be done.
 */
export async function runMiniUp(
  context: CommandContext,
  options: MiniUpOptions,
  buildImage: ImageBuilder,
): Promise<void> {
  const machines = machineHostFrom(context);
  const { files } = context.ports;
  const { root } = miniPathsFrom(context);
  const directory = join(root, parseName(options.name, 'cluster'));
  const found = chooseType(options.name, await readMachinePlan(files, directory), options.machines);
  refuseOptions(options, found);
  await checkHost(context, machines, found);
  if (options.nodesOnly !== true) await prepareBundle(context, options);
  const layers = found === 'vm' ? [] : await prepareLayers(context, machines, options.agent);
  const cluster = await createCluster(machines, { root, name: options.name, signal: context.signal });
  await using _lock = await cluster.lock();
  const own = inWorkspaceOf(context, cluster);
  const plan = await readMachinePlan(files, cluster.paths.directory);
  const type = chooseType(options.name, plan, found); // another process may have created the cluster before the lock
  const planned = planMachines(plan?.machines ?? [], options);
  // The plan is saved before any machine is created, so that an interrupted run can be resumed.
  await saveMachinePlan(files, cluster.paths.directory, { machines: planned, type });
  const identities = await createTpms(context, cluster, planned);
  const joining = joiningMachines(planned, identities);
  const attestation = await localAttestation(files, cluster);
  const ownerKey = await prepareWorkspace(own, { ...options, attestation }, joining);
  const families = await readFamilies(own, options);
  const source: MachineSource =
    type === 'container'
      ? { type, layers, emptyStore: options.emptyStore === true }
      : {
          type,
          recovery: recoveryOf(ownerKey.keyPem),
          buildImage: () =>
            buildImage(context, { agent: options.agent, work: join(cluster.paths.directory, 'image') }),
        };
  const known = new Set((await cluster.nodes()).map(({ name }) => name));
  const ownerKeys = [ownerKey.pubKeyBase64] as const;
  const made = await createMachines(context, cluster, { planned, source, ownerKeys, families });
  const stopped = await startMachines(context, cluster, made);
  const started = stopped.map(({ name }) => name).filter((name) => known.has(name));
  if (options.nodesOnly === true) await reportMachines(context, cluster, made);
  else await runInitAndJoins(own, { cluster, first: made[0], joining, started, options });
}

/** Virtual machines have IPv4 addresses only, from a DHCP server. @throws MiniError `mini-vm-option` */
export function refuseOptions({ ipFamily }: Pick<MiniUpOptions, 'ipFamily'>, type: MachineType): void {
  if (type === 'vm' && ipFamily !== undefined && ipFamily !== 'ipv4')
    throw new MiniError(
      'mini-vm-option',
      `virtual machines have IPv4 addresses only, not --ip-family ${ipFamily}`,
    );
}

/** The owner key of the workspace opens and approves state disks, as with `cluster provisioning generate`. */
function recoveryOf(keyPem: Secret<string>): DiskRecovery {
  return {
    approvalKey: approvalKeyOfOwner(keyPem).publicKey,
    recoveryRecipients: [recoveryKeyOfOwner(keyPem).recipient],
  };
}

/** All machines but the first, with the identity of their TPM. Without workers the control planes run the workloads. */
function joiningMachines(
  planned: readonly PlannedMachine[],
  identities: ReadonlyMap<string, string>,
): readonly JoiningMachine[] {
  const hasWorkers = planned.some(({ kind }) => kind === 'worker');
  return planned.slice(1).map(({ name, kind }) => ({
    name,
    roles: kind === 'worker' || hasWorkers ? [kind] : [kind, 'worker'],
    identity: endorsementKeyIdentity((identities.get(name) ?? '').replace(/^sha256:/, '')),
  }));
}

/** What protects the disks of the machines, for people. */
function describeDisks(type: MachineType): string {
  return type === 'vm'
    ? 'encrypted, sealed to the software TPM and the boot of each machine'
    : 'not encrypted: the machines are containers (`--machines vm` encrypts them)';
}

/** The next command to run; with `npx` if this program was started by npm. */
function nextCommand({ env }: CommandContext, { name }: LocalCluster, rest: string): string {
  const program = env['npm_lifecycle_event'] === undefined ? 'cluster' : 'npx cluster';
  return `Next: ${program} mini exec${name === 'mini' ? '' : ` --name ${name}`} ${rest}`;
}

/** The context with the workspace of the local cluster. */
function inWorkspaceOf(context: CommandContext, cluster: LocalCluster): CommandContext {
  return { ...context, paths: { ...context.paths, workspace: cluster.paths.workspace } };
}

/**
 * Creates the workspace before the machines: they are provisioned with its owner key, and its configuration lists them.
 */
async function prepareWorkspace(
  context: CommandContext,
  options: MiniUpOptions & { readonly attestation: Readonly<Record<string, unknown>> },
  joining: readonly JoiningMachine[],
): Promise<OwnerKey> {
  return context.host.step('mini-workspace', 'Preparing the workspace', async () => {
    const { generateWorkspace } = await import('../cluster/index.ts');
    const hasWorkers = joining.some(({ roles }) => !roles.includes('control-plane'));
    const { ownerKey } = await generateWorkspace(context, {
      name: options.name,
      kubernetesVersion: options.kubernetesVersion,
      local: true,
      localFamilies: options.ipFamily,
      attestation: options.attestation,
      charts: options.demo === true ? [demoChart] : [],
      runsWorkloads: !hasWorkers,
      join: joining.length === 0 ? undefined : { policy: 'inventory', inventory: inventoryOf(joining) },
    });
    return ownerKey;
  });
}

function inventoryOf(joining: readonly JoiningMachine[]) {
  return joining.map(({ name, roles, identity }) => ({ identity, name, roles: [...roles], labels: {} }));
}

async function runInitAndJoins(
  context: CommandContext,
  made: {
    readonly cluster: LocalCluster;
    readonly first: LocalNode;
    readonly joining: readonly JoiningMachine[];
    /** Machines that existed and did not run. */
    readonly started: readonly string[];
    readonly options: MiniUpOptions;
  },
): Promise<void> {
  const { cluster, first, joining, started, options } = made;
  const fingerprint = await awaitAgent(context, first);
  const { runInit } = await import('../cluster/index.ts');
  const summary = await runInit(context, {
    node: formatEndpoint(first.address, PORTS.init),
    fingerprint,
    kubernetesVersion: options.kubernetesVersion,
    charts: { kind: 'all' },
  });
  if (joining.length > 0) {
    const { awaitMembers } = await import('./await-members.ts');
    await awaitMembers(context, joining, MEMBERS_MS[first.type]);
  }
  const demo = options.demo === true ? await askDemo(context, first.address) : undefined;
  const { workspace } = cluster.paths;
  const machines = [first.name, ...joining.map(({ name }) => name)];
  const named = machines.length === 1 ? '' : `${machines.join(', ')}; `;
  const data = {
    ...summary,
    workspace,
    node: first.name,
    address: first.address,
    machines,
    started,
    demo,
    type: first.type,
  };
  context.host.result(data, () =>
    [
      summary.unchanged
        ? `Local cluster ${cluster.name} exists; ${started.length === 0 ? 'nothing was changed' : `started ${started.join(', ')}`}.`
        : `Local cluster ${cluster.name} is running.`,
      `  ${machines.length === 1 ? 'machine ' : 'machines'}    ${named}${first.name} at ${first.address}`,
      `  API server  ${summary.apiServer}`,
      `  workspace   ${workspace}`,
      `  kubeconfig  ${summary.kubeconfig}`,
      `  disks       ${describeDisks(first.type)}`,
      ...(demo === undefined ? [] : [`  sample      ${demo.url} says: ${demo.answer}`]),
      '',
      first.type === 'vm'
        ? `Next: kubectl --kubeconfig ${summary.kubeconfig} get pods -A`
        : nextCommand(context, cluster, `${first.name} -- kubectl get pods -A`),
    ].join('\n'),
  );
}

/** Waits for the agents of virtual machines: nobody but their consoles shows the fingerprints. */
async function reportMachines(
  context: CommandContext,
  cluster: LocalCluster,
  made: readonly [LocalNode, ...LocalNode[]],
): Promise<void> {
  const { workspace } = cluster.paths;
  const [{ name: node, address: firstAddress, type }] = made;
  const machines: { readonly name: string; readonly address: string; readonly fingerprint?: string }[] = [];
  for (const machine of made) {
    const { name, address } = machine;
    const shown = type === 'vm' ? { fingerprint: await awaitAgent(context, machine) } : {};
    machines.push({ name, address, ...shown });
  }
  const data = { cluster: cluster.name, workspace, node, address: firstAddress, machines, type };
  context.host.result(data, () =>
    [
      ...machines.map(
        ({ name, address, fingerprint }) =>
          `Machine ${name} of local cluster ${cluster.name} is running at ${address}${fingerprint === undefined ? '' : `, fingerprint ${fingerprint}`}.`,
      ),
      `Disks: ${describeDisks(type)}.`,
      ...(type === 'vm' ? [] : [nextCommand(context, cluster, `${node} -- bash`)]),
    ].join('\n'),
  );
}

/** Checks or builds the bundle before any machine is created. */
export async function prepareBundle(
  context: CommandContext,
  options: { readonly kubernetesVersion?: string; readonly build?: true },
): Promise<void> {
  const { buildContext } = await import('../bundle/index.ts');
  const { buildBundle, openBundleCache } = await import('../../internal/bundlebuild/index.ts');
  const { DEFAULT_KUBERNETES_VERSION } = await import('../../internal/bundle/index.ts');
  const kubernetesVersion = options.kubernetesVersion ?? DEFAULT_KUBERNETES_VERSION;
  const bundle = buildContext(context);
  if (options.build === true) await buildBundle(bundle, { kubernetesVersion });
  else await openBundleCache(bundle).read(kubernetesVersion, bundle.machine.architecture);
}
