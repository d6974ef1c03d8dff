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

/** containerd's metadata of images (core/metadata). containerd creates this file at its first start. */
const METADATA = '/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db';

/**
 * Writes the configuration of containerd and starts containerd. A changed configuration restarts containerd;
 * containers keep running.
 * @returns whether containerd has run before, and so may have images
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
      'configuring containerd: no pause image in the bundle',
    );
  }
  const config = buildContainerdConfig({ pauseImage, host: options.host });
  const found = await ports.files.read(PATHS.containerdConfig, 64 * 1024);
  const hasRun = (await ports.files.stat(METADATA)) !== undefined;
  await ports.files.makeDirectory('/etc/containerd', 0o755);
  if (found === undefined || Buffer.from(found).toString('utf8') !== config) {
    await ports.units.requireRestart(CONTAINERD_UNIT); // before the write: after a crash in between, the agent's next start restarts containerd
    await ports.files.writeAtomic(PATHS.containerdConfig, config, { mode: 0o644 });
  }
  await ports.units.install(CONTAINER_SCOPES_DROPIN, buildContainerScopes(), options.signal);
  await ensureUnit(ports.units, { unit: CONTAINERD_UNIT, content: buildContainerdUnit() }, options.signal);
  return { hasRun };
}
