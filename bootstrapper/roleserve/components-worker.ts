import { parseManifest, type Component } from '../../internal/bundle/index.ts';
import { combine, type Settable, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import {
  importImages,
  installBinaries,
  startContainerRuntime,
  type ComponentPorts,
  type HostSettings,
} from '../kubernetes/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import type { ClusterSettings, LocalComponents } from './values.ts';

interface Inputs {
  readonly settings: ClusterSettings | undefined;
}

interface Start {
  readonly kubernetesVersion: string;
  readonly components: readonly Component[];
}

export interface ComponentsWorkerOptions {
  readonly reads: { readonly clusterSettings: Readable<ClusterSettings | undefined> };
  readonly writes: { readonly localComponents: Settable<LocalComponents | undefined> };
  readonly phases: PhaseReporter;
  readonly host: HostSettings;
  readonly ports: ComponentPorts & { readonly files: FilePort; readonly units: UnitPort };
}

/** Any member has components: they follow the cluster's settings alone. */
export function planComponents({ settings }: Inputs): Plan<Start> {
  if (settings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  const { kubernetesVersion, components } = parseManifest(Buffer.from(settings.bundleManifest, 'utf8'));
  return { kind: 'start', config: { kubernetesVersion, components } };
}

/** Puts the bundle's programs in place, runs containerd, imports the images. */
export function componentsWorker(options: ComponentsWorkerOptions): Runnable {
  const { reads, writes } = options;
  return launcher({
    input: combine({ settings: reads.clusterSettings }),
    plan: planComponents,
    start: async (scope, start) => {
      await provide(options, scope, start);
      writes.localComponents.set({ kubernetesVersion: start.kubernetesVersion, images: 'imported' });
    },
  });
}

async function provide(
  { phases, ports, host, writes }: ComponentsWorkerOptions,
  { signal }: Scope,
  start: Start,
): Promise<void> {
  const { components, kubernetesVersion } = start;
  await phases.run('components', async (progress) => {
    const installed = await installBinaries(components, ports, (name, done, total) =>
      progress.say(`installing ${name}`, { done, total }),
    );
    if (installed === 0) progress.already();
    writes.localComponents.set({ kubernetesVersion, images: 'importing' });
    progress.say('starting the container runtime');
    await startContainerRuntime(ports, { components, host, signal });
  });
  await phases.run('images', async (progress) => {
    const onProgress = (done: number, total: number): void =>
      progress.say('importing images', { done, total });
    const onEssential = (): void => writes.localComponents.set({ kubernetesVersion, images: 'essential' });
    if ((await importImages(components, ports, { onProgress, onEssential, signal })) === 0)
      progress.already();
  });
}
