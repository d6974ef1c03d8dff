import { combine, when, type Readable, type Settable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { Membership } from '../enrolment/index.ts';
import {
  ControlPlane,
  stopKubernetes,
  type ControlPlanePorts,
  type EtcdClientFiles,
  type HostSettings,
  type KubernetesSettings,
} from '../kubernetes/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import type {
  BootstrapData,
  ClusterSettings,
  KubernetesStatus,
  LocalComponents,
  LocalControlPlane,
  RoleSet,
} from './values.ts';

interface Inputs {
  readonly bootstrap: BootstrapData | undefined;
  readonly membership: Membership | undefined;
  readonly settings: ClusterSettings | undefined;
  readonly roles: RoleSet | undefined;
  readonly components: LocalComponents | undefined;
}

export interface KubernetesStart {
  readonly settings: KubernetesSettings;
}

export interface KubernetesWorkerOptions {
  readonly reads: {
    readonly bootstrapData: Readable<BootstrapData | undefined>;
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterSettings: Readable<ClusterSettings | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
    readonly localComponents: Readable<LocalComponents | undefined>;
    readonly localControlPlane: Readable<LocalControlPlane | undefined>;
  };
  readonly writes: { readonly kubernetesStatus: Settable<KubernetesStatus | undefined> };
  readonly phases: PhaseReporter;
  readonly host: HostSettings;
  /** The address of a node that is not a member yet. */
  readonly ownAddress: () => string;
  readonly apiServerEtcd: EtcdClientFiles;
  readonly ports: ControlPlanePorts;
}

/** The roles that an init asks for; the cluster's record says the same once it exists. */
function rolesOf({ bootstrap, roles }: Inputs): RoleSet | undefined {
  if (bootstrap === undefined) return roles;
  return new Set([
    'ConsensusMember',
    'KubernetesController',
    ...(bootstrap.spec.singleNode ? (['KubernetesWorker'] as const) : []),
  ]);
}

export function planKubernetes(
  inputs: Inputs,
  host: HostSettings,
  ownAddress: () => string,
): Plan<KubernetesStart> {
  const { bootstrap, membership, settings, components } = inputs;
  const roles = rolesOf(inputs);
  if (roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (!roles.has('KubernetesController')) return { kind: 'stop', why: 'idle: role absent' };
  if (settings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  if (components === undefined) return { kind: 'wait', why: 'the components' };
  const nodeName = membership?.nodeName ?? bootstrap?.spec.nodeName;
  if (nodeName === undefined) return { kind: 'wait', why: 'the membership of this node' };
  const kubernetes: KubernetesSettings = {
    version: settings.kubernetesVersion,
    clusterName: settings.clusterName,
    nodeName,
    nodeAddress: membership?.nodeAddress ?? ownAddress(),
    podSubnet: settings.podSubnet,
    serviceSubnet: settings.serviceSubnet,
    apiServerSans: settings.apiServerSans,
    runsWorkloads: roles.has('KubernetesWorker'),
    host,
  };
  return { kind: 'start', config: { settings: kubernetes } };
}

/** Runs Kubernetes where the role is. Certificates are made while etcd starts and images are imported. */
export function kubernetesWorker(options: KubernetesWorkerOptions): Runnable {
  const { reads, host, ownAddress } = options;
  return launcher({
    input: combine({
      bootstrap: reads.bootstrapData,
      membership: reads.clusterMembership,
      settings: reads.clusterSettings,
      roles: reads.localRoles,
      components: reads.localComponents,
    }),
    plan: (inputs) => planKubernetes(inputs, host, ownAddress),
    start: (scope, start) => serve(options, scope, start),
    retire: async ({ signal }) => {
      options.writes.kubernetesStatus.set(undefined);
      await stopKubernetes(options.ports.units, signal);
    },
  });
}

async function serve(
  options: KubernetesWorkerOptions,
  scope: Scope,
  { settings }: KubernetesStart,
): Promise<void> {
  const { reads, writes, phases, ports, apiServerEtcd } = options;
  const { signal } = scope;
  const controlPlane = new ControlPlane(ports, settings, apiServerEtcd);
  writes.kubernetesStatus.set(undefined);
  await phases.run('pki', (progress) => controlPlane.makePki(progress, signal));
  scope.waiting('the images');
  await when(
    reads.localComponents,
    (components) => components !== undefined && components.images !== 'importing',
    signal,
  );
  scope.waiting('consensus');
  await when(reads.localControlPlane, (running) => running !== undefined, signal);
  scope.waiting('the API server');
  await phases.run('control-plane', (progress) => controlPlane.start(progress, signal));
  // DNS and proxy are deployed now: a kubelet that misses their images would ask a registry.
  await when(reads.localComponents, (components) => components?.images === 'imported', signal);
  await phases.run('settings', (progress) => controlPlane.storeSettings(progress, signal));
  await phases.run('node', (progress) => controlPlane.waitRegistered(progress, signal));
  writes.kubernetesStatus.set({ version: settings.version, controlPlane: true });
}
