import type { Component } from '../../../internal/bundle/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import { ensureUnit } from '../../units/index.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS, type HostSettings } from '../settings.ts';
import {
  buildContainerScopes,
  CONTAINER_SCOPES_DROPIN,
  buildContainerdConfig,
  buildContainerdUnit,
  CONTAINERD_UNIT,
} from './units.ts';

/** What containerd knows of images (containerd, core/metadata): written when it first starts. */
const METADATA = '/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db';

/**
 * Writes containerd's configuration and starts it. A changed configuration restarts it: containers live on. Answers whether
 * it has run before, and so may have images.
 */
export async function startContainerRuntime(
  ports: { readonly files: FilePort; readonly units: UnitPort },
  options: {
    readonly components: readonly Component[];
    readonly host: HostSettings;
    readonly signal: AbortSignal;
  },
): Promise<{ readonly hasRun: boolean }> {
  const pauseImage = options.components.find(({ name }) => name === 'pause')?.references?.[0];
  if (pauseImage === undefined) {
    throw new KubernetesError(
      'kubernetes-component-missing',
      'configuring containerd: the bundle has no pause image',
    );
  }
  const config = buildContainerdConfig({ pauseImage, host: options.host });
  const found = await ports.files.read(PATHS.containerdConfig, 64 * 1024);
  const hasRun = (await ports.files.stat(METADATA)) !== undefined;
  await ports.files.makeDirectory('/etc/containerd', 0o755);
  if (found === undefined || Buffer.from(found).toString('utf8') !== config) {
    await ports.units.requireRestart(CONTAINERD_UNIT); // also for the next life, should this one end before the restart
    await ports.files.writeAtomic(PATHS.containerdConfig, config, { mode: 0o644 });
  }
  await ports.units.install(CONTAINER_SCOPES_DROPIN, buildContainerScopes(), options.signal);
  await ensureUnit(ports.units, { unit: CONTAINERD_UNIT, content: buildContainerdUnit() }, options.signal);
  return { hasRun };
}
