import { DEFAULT_CERTIFICATES, familiesOf } from '../../internal/config/index.ts';
import { familyOf } from '../../internal/endpoint/index.ts';
import { combine, currentValue, follow, when } from '../../internal/event/index.ts';
import { PreflightError } from '../../internal/preflight/index.ts';
import { firstNodeRoles } from '../../internal/role/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import {
  ControlPlane,
  type ControlPlanePorts,
  type EtcdClientFiles,
  type HostSettings,
  Kubelet,
  KUBELET_UNIT,
  type KubernetesSettings,
  reconcileControlPlaneTaint,
  retireControlPlane,
  type RetirePorts,
} from '../kubernetes/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import type { RoleSet, RoleState, RoleValues, RoleValueWriters } from './role-values.ts';

type InputName = 'bootstrapData' | 'clusterMembership' | 'clusterSettings' | 'localRoles' | 'localComponents';

/** The data with which the worker starts Kubernetes. */
export interface KubernetesStart {
  readonly settings: KubernetesSettings;
  /** Whether the node is a control plane at the start; later the worker follows the role. */
  readonly controller: boolean;
}

/** Inputs and ports (injected dependencies) of the Kubernetes worker. */
export interface KubernetesWorkerOptions {
  readonly reads: Pick<RoleValues, InputName | 'localControlPlane'>;
  readonly writes: Pick<RoleValueWriters, 'kubernetesStatus'>;
  readonly phases: PhaseReporter;
  readonly host: HostSettings;
  readonly nodeId: string;
  /** The address of this node before it is a member. */
  readonly ownAddress: () => string;
  /** The address of this node with the other IP family than this one. */
  readonly secondaryAddress: (address: string) => string | undefined;
  /** Whether this node is creating the cluster. Only then may it create the shared keys. */
  readonly isCreatingCluster: () => boolean;
  /** Whether the cluster that this node is creating is restored from a backup. */
  readonly isRestoringCluster: () => boolean;
  /** Whether new keys are on disk but not active yet. Until they are active, nothing is restarted. */
  readonly isKeyChangePending: () => Promise<boolean>;
  readonly apiServerEtcd: EtcdClientFiles;
  readonly ports: ControlPlanePorts & RetirePorts;
}

/** The roles of the node; during an init, the roles that the init requests. */
function rolesOf({ bootstrapData, localRoles }: Pick<RoleState, InputName>): RoleSet | undefined {
  return bootstrapData === undefined ? localRoles : new Set(firstNodeRoles(bootstrapData.spec));
}

/** Runs Kubernetes if a role needs it. Pure. */
export function planKubernetes(
  state: Pick<RoleState, InputName>,
  host: HostSettings,
  own: {
    readonly nodeId: string;
    readonly address: () => string;
    readonly secondaryAddress: KubernetesWorkerOptions['secondaryAddress'];
  },
): Plan<KubernetesStart> {
  const { bootstrapData, clusterMembership, clusterSettings: settings } = state;
  const roles = rolesOf(state);
  if (roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  const controller = roles.has('KubernetesController');
  if (!controller && !roles.has('KubernetesWorker')) return { kind: 'stop', why: 'idle: role absent' };
  if (settings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  if (state.localComponents === undefined) return { kind: 'wait', why: 'the components' };
  const nodeName = clusterMembership?.nodeName ?? bootstrapData?.spec.nodeName;
  if (nodeName === undefined) return { kind: 'wait', why: 'the membership of this node' };
  const nodeAddress = clusterMembership?.nodeAddress ?? own.address();
  const secondaryAddress =
    familiesOf(settings.serviceSubnet).length > 1 ? own.secondaryAddress(nodeAddress) : undefined;
  const kubernetes: KubernetesSettings = {
    version: settings.kubernetesVersion,
    clusterName: settings.clusterName,
    nodeId: own.nodeId,
    nodeName,
    nodeAddress,
    ...(secondaryAddress === undefined ? {} : { secondaryAddress }),
    podSubnet: settings.podSubnet,
    serviceSubnet: settings.serviceSubnet,
    apiServerSans: settings.apiServerSans,
    apiEndpoint: settings.apiEndpoint,
    certificates: settings.certificates ?? DEFAULT_CERTIFICATES,
    podSecurity: settings.podSecurity,
    hardening: settings.hardening,
    extraArguments: settings.extraArguments,
    runsWorkloads: roles.has('KubernetesWorker'),
    taints: clusterMembership?.taints ?? [],
    host,
  };
  return { kind: 'start', config: { settings: kubernetes, controller } };
}

/**
 * Runs the kubelet on every node with a Kubernetes role, and the control plane on nodes with that role. Certificates
 * are created while etcd starts and images are imported. The kubelet keeps running when a control plane starts or
 * stops.
 */
export function kubernetesWorker(options: KubernetesWorkerOptions): Runnable {
  const { writes, ports, host, nodeId, ownAddress, secondaryAddress } = options;
  const { bootstrapData, clusterMembership, clusterSettings, localRoles, localComponents } = options.reads;
  return launcher({
    input: combine({ bootstrapData, clusterMembership, clusterSettings, localRoles, localComponents }),
    plan: (state) => planKubernetes(state, host, { nodeId, address: ownAddress, secondaryAddress }),
    start: (scope, start) => serve(options, scope, start),
    tearDown: async ({ signal }) => {
      writes.kubernetesStatus.set(undefined);
      const membership = currentValue(clusterMembership);
      // Only the kubelet can stop static pods, so the control plane is removed before the kubelet stops.
      if (membership !== undefined) await retireControlPlane(ports, { ...membership, signal });
      await ports.units.stop(KUBELET_UNIT, signal); // the kubelet's files stay on disk
    },
  });
}

async function serve(options: KubernetesWorkerOptions, scope: Scope, start: KubernetesStart): Promise<void> {
  const { reads, writes, phases, ports, apiServerEtcd } = options;
  const { signal } = scope;
  const { settings } = start;
  refuseMissingFamily(settings);
  const { runsWorkloads } = settings;
  const runs: Work['runs'] = { controller: start.controller ? 'wholly' : 'not', workloads: runsWorkloads };
  const work: Work = { options, start, runs };
  writes.kubernetesStatus.set(undefined);
  const kubelet = new Kubelet(ports, settings, apiServerEtcd);
  if (start.controller) await serveController(work, scope);
  else {
    // An earlier run of the agent may have ended during a demotion.
    await retireControlPlane(ports, { ...settings, signal });
    await phases.run('pki', () => kubelet.writeKubeconfig());
    await untilImages(reads.localComponents, 'essential', scope);
  }
  await phases.run('node', async (progress) => {
    await kubelet.start(progress, signal);
    await kubelet.waitUntilRegistered(progress, signal);
  });
  writes.kubernetesStatus.set({ version: settings.version, controlPlane: start.controller });
  scope.run('controller', (child) => followRoles(work, child));
}

/**
 * Without an address of each family the kubelet would start, and the node would not become Ready. The message is in the log of the
 * agent; the status of the node has it too (internal/preflight/running-checks.ts). The supervisor tries again.
 * @throws PreflightError `preflight-address-family`
 */
function refuseMissingFamily({ serviceSubnet, nodeAddress, secondaryAddress }: KubernetesSettings): void {
  const families = familiesOf(serviceSubnet);
  if (families.length === 1 || secondaryAddress !== undefined) return;
  const missing = familyOf(nodeAddress) === 'IPv4' ? 'IPv6' : 'IPv4';
  throw new PreflightError(
    'preflight-address-family',
    `starting Kubernetes: the cluster has IPv4 and IPv6 networks, but this machine has no ${missing} address`,
  );
}

/** State of one run of the worker. */
interface Work {
  readonly options: KubernetesWorkerOptions;
  readonly start: KubernetesStart;
  /**
   * The parts of its roles that the node already runs. The child that follows the roles may restart without
   * losing this.
   */
  readonly runs: {
    controller: 'not' | 'partly' | 'wholly';
    /** Whether ordinary pods may run on this control plane; undefined while that is being changed. */
    workloads: boolean | undefined;
  };
}

/**
 * Starts the control plane, from its certificates to the taint of its node. A running kubelet is left alone.
 */
async function serveController({ options, start }: Work, scope: Scope): Promise<void> {
  const { reads, phases, ports, apiServerEtcd } = options;
  const { signal } = scope;
  const creates = options.isCreatingCluster();
  const controlPlane = new ControlPlane(ports, {
    settings: start.settings,
    etcd: apiServerEtcd,
    createsCluster: creates,
    restoresCluster: options.isRestoringCluster(),
  });
  await phases.run('pki', (progress) => controlPlane.createPki(progress, signal));
  await untilImages(reads.localComponents, 'essential', scope);
  scope.waiting('consensus');
  await when(reads.localControlPlane, (running) => running !== undefined, signal);
  scope.waiting('the API server');
  const isBetweenKeys = await options.isKeyChangePending();
  await phases.run('control-plane', (progress) =>
    isBetweenKeys ? controlPlane.resume(progress, signal) : controlPlane.start(progress, signal),
  );
  // DNS and proxy are deployed next. Without their images, the kubelet would pull them from a registry.
  await untilImages(reads.localComponents, 'imported', scope);
  await phases.run('settings', async (progress) => {
    await controlPlane.storeSettings(progress, signal);
    await reconcileControlPlaneTaint(ports, { ...start.settings, signal });
  });
}

/** Resolves when all images of this node's roles are imported, or at least the essential images. */
async function untilImages(
  components: RoleValues['localComponents'],
  wanted: 'essential' | 'imported',
  scope: Scope,
): Promise<void> {
  scope.waiting('the images');
  await when(
    components,
    (now) => now?.images === 'imported' || (wanted === 'essential' && now?.images === 'essential'),
    scope.signal,
  );
  scope.waiting(undefined);
}

/**
 * Starts and stops the control plane with its role, and keeps ordinary pods off the node unless it is also a
 * worker.
 */
async function followRoles(work: Work, scope: Scope): Promise<void> {
  const { options, start, runs } = work;
  const { reads, writes, ports } = options;
  const { settings } = start;
  scope.healthy();
  for await (const roles of follow(reads.localRoles, scope.signal)) {
    // Without any role, the plan stops the whole worker.
    if (roles === undefined || (!roles.has('KubernetesController') && !roles.has('KubernetesWorker')))
      continue;
    const wanted = roles.has('KubernetesController');
    const runsWorkloads = roles.has('KubernetesWorker');
    if (wanted && runs.controller === 'wholly' && runs.workloads !== runsWorkloads) {
      scope.log.info(runsWorkloads ? 'allowing ordinary pods' : 'keeping ordinary pods off', {});
      runs.workloads = undefined;
      await reconcileControlPlaneTaint(ports, { ...settings, runsWorkloads, signal: scope.signal });
      runs.workloads = runsWorkloads;
    }
    if (runs.controller === (wanted ? 'wholly' : 'not')) continue;
    scope.log.info(wanted ? 'starting the control plane' : 'removing the control plane', {});
    runs.controller = 'partly';
    if (wanted) {
      await when(reads.localComponents, (now) => now?.controlPlane === true, scope.signal);
      runs.workloads = undefined;
      await serveController(
        { ...work, start: { ...start, settings: { ...settings, runsWorkloads } } },
        scope,
      );
      runs.workloads = runsWorkloads;
    } else await retireControlPlane(ports, { ...settings, signal: scope.signal });
    runs.controller = wanted ? 'wholly' : 'not';
    writes.kubernetesStatus.set({ version: settings.version, controlPlane: wanted });
  }
}
