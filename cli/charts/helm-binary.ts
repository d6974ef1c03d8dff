import { join } from 'node:path';
import { digestOf } from '../../internal/bundle/index.ts';
import { DiskStreams, type FilePort } from '../../internal/file/index.ts';
import type { SourcePorts } from './locate-chart.ts';

const EXECUTABLE = 0o755;

/**
 * Path of the helm program from the bundle. Blobs are not executable, so helm is copied once; its hash is verified on every use.
 * @returns "helm", for a lookup in PATH, when the bundle has none
 */
export async function helmBinary(
  ports: Pick<SourcePorts, 'bundle' | 'signal'> & { readonly files: FilePort },
  cache: string,
): Promise<string> {
  const { bundle, signal, files } = ports;
  const component = bundle.manifest.components.find(({ name, kind }) => name === 'helm' && kind === 'binary');
  if (component === undefined || !(await bundle.store.has(component.sha256))) return 'helm';
  const streams = new DiskStreams();
  const directory = join(cache, 'bin');
  const path = join(directory, `helm-${component.sha256.slice(0, 16)}`);
  if ((await files.stat(path))?.kind === 'file') {
    if ((await digestOf(streams.readChunks(path, { signal }))).sha256 === component.sha256) return path;
  }
  const blob = await bundle.store.verify(component, signal);
  await files.makeDirectory(directory);
  await streams.copy(blob, `${path}.new`);
  await streams.publish(`${path}.new`, path, EXECUTABLE);
  return path;
}
