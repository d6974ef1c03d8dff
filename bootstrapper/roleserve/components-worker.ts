import { parseManifest, type Component } from '../../internal/bundle/index.ts';
import { combine, when } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import {
  fetchComponents,
  importImages,
  installBinaries,
  isForRole,
  startContainerRuntime,
  type ComponentPorts,
  type HostSettings,
} from '../kubernetes/index.ts';
import type { PhaseProgress, PhaseReporter } from '../phases/index.ts';
import type { LocalComponents, RoleState, RoleValues, RoleValueWriters } from './role-values.ts';

type InputName = 'bootstrapData' | 'clusterSettings' | 'localRoles';

interface Start {
  readonly kubernetesVersion: string;
  readonly components: readonly Component[];
  /** Whether the components of a control plane are needed from the start. */
  readonly controlPlane: boolean;
}

/** Inputs and ports (injected dependencies) of the components worker. */
export interface ComponentsWorkerOptions {
  readonly reads: Pick<RoleValues, InputName | 'kubernetesStatus'>;
  readonly writes: Pick<RoleValueWriters, 'localComponents'>;
  readonly phases: PhaseReporter;
  readonly host: HostSettings;
  readonly ports: ComponentPorts & Pick<SystemPorts, 'files' | 'units'>;
}

/**
 * Every member needs components: the settings of the cluster list them, and the roles select from that list.
 * Pure.
 */
export function planComponents({
  bootstrapData,
  clusterSettings,
  localRoles,
}: Pick<RoleState, InputName>): Plan<Start> {
  if (clusterSettings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  if (bootstrapData === undefined && localRoles === undefined)
    return { kind: 'wait', why: 'the roles of this node' };
  const manifest = parseManifest(Buffer.from(clusterSettings.bundleManifest, 'utf8'));
  const { kubernetesVersion, components } = manifest;
  const controlPlane = bootstrapData !== undefined || localRoles?.has('ConsensusMember') === true;
  return { kind: 'start', config: { kubernetesVersion, components, controlPlane } };
}

/**
 * Installs programs of the bundle, runs containerd and imports images. Components of a control plane are
 * added when the role is assigned, even years later, and stay installed when the role is removed.
 */
export function componentsWorker(options: ComponentsWorkerOptions): Runnable {
  const { bootstrapData, clusterSettings, localRoles } = options.reads;
  return launcher({
    input: combine({ bootstrapData, clusterSettings, localRoles }),
    plan: planComponents,
    start: async (scope, start) => {
      await provide(options, scope, start);
      if (!start.controlPlane)
        scope.run('controlplane', (child) => provideOnPromotion(options, child, start));
    },
  });
}

async function provideOnPromotion(
  options: ComponentsWorkerOptions,
  scope: Scope,
  start: Start,
): Promise<void> {
  scope.healthy();
  scope.waiting('nothing: no control plane components needed');
  const { localRoles } = options.reads;
  await when(localRoles, (roles) => roles?.has('ConsensusMember') === true, scope.signal);
  scope.waiting('control plane components');
  await provide(options, scope, { ...start, controlPlane: true });
  scope.waiting(undefined);
  scope.done();
}

async function provide(
  { reads, phases, ports, host, writes }: ComponentsWorkerOptions,
  { signal }: Scope,
  start: Start,
): Promise<void> {
  const { kubernetesVersion, controlPlane } = start;
  const components = start.components.filter((each) => isForRole(each, { controlPlane }));
  const publish = (images: LocalComponents['images']): void =>
    writes.localComponents.set({ kubernetesVersion, controlPlane, images });
  const fetch = (kinds: readonly Component['kind'][], progress: PhaseProgress): Promise<number> =>
    fetchComponents(components, ports, {
      kinds,
      onProgress: (name, done, total) => progress.report(`fetching ${name}`, { done, total }),
      signal,
    });
  const { hasRun } = await phases.run('components', async (progress) => {
    const fetched = await fetch(['binary'], progress);
    const installed = await installBinaries(components, ports, (name, done, total) =>
      progress.report(`installing ${name}`, { done, total }),
    );
    if (fetched + installed === 0) progress.reportUnchanged();
    publish('importing');
    progress.report('starting the container runtime');
    return startContainerRuntime(ports, components, host, signal);
  });
  await phases.run('images', async (progress) => {
    const onProgress = (done: number, total: number): void =>
      progress.report('importing images', { done, total });
    const onEssential = (): void => publish('essential');
    const mayFollow = (): Promise<void> => {
      if (controlPlane) return Promise.resolve();
      progress.report('waiting for the pods of this node to start first');
      return untilRegistered(reads, signal);
    };
    const options = { onProgress, controlPlane, hasRun, onEssential, mayFollow, signal };
    const imported = await importImages(components, ports, options);
    // Control planes keep the blobs of all images for other nodes, also of images that containerd already
    // has.
    const fetched = await fetch(controlPlane ? ['image'] : [], progress);
    if (imported + fetched === 0) progress.reportUnchanged();
  });
  publish('imported');
}

/**
 * Resolves when the pods of a new worker node may start. A node that becomes a control plane does not wait.
 */
async function untilRegistered(
  { kubernetesStatus, localRoles }: ComponentsWorkerOptions['reads'],
  signal: AbortSignal,
): Promise<void> {
  await when(
    combine({ kubernetesStatus, localRoles }),
    (now) => now.kubernetesStatus !== undefined || now.localRoles?.has('ConsensusMember') === true,
    signal,
  );
}
