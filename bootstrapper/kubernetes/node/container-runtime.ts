import type { Component } from '../../../internal/bundle/index.ts';
import { readText } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
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
  { files, units }: Pick<SystemPorts, 'files' | 'units'>,
  components: readonly Component[],
  host: HostSettings,
  signal: AbortSignal,
): Promise<{ readonly hasRun: boolean }> {
  const pauseImage = components.find(({ name }) => name === 'pause')?.references?.[0];
  if (pauseImage === undefined) {
    const message = 'configuring containerd: no pause image in the bundle';
    throw new KubernetesError('kubernetes-component-missing', message);
  }
  const config = buildContainerdConfig({ pauseImage, host });
  const hasRun = (await files.stat(METADATA)) !== undefined;
  await files.makeDirectory('/etc/containerd', 0o755);
  if ((await readText(files, PATHS.containerdConfig)) !== config) {
    await units.requireRestart(CONTAINERD_UNIT); // before the write: after a crash in between, the agent's next start restarts containerd
    await files.writeAtomic(PATHS.containerdConfig, config, { mode: 0o644 });
  }
  await units.install(CONTAINER_SCOPES_DROPIN, buildContainerScopes(), signal);
  await ensureUnit(units, { unit: CONTAINERD_UNIT, content: buildContainerdUnit() }, signal);
  return { hasRun };
}
