import { arch } from 'node:os';
import { join } from 'node:path';
import {
  ARCHITECTURES,
  BlobStore,
  bundleName,
  MAX_MANIFEST_BYTES,
  parseManifest,
  type BundleManifest,
} from '../../../internal/bundle/index.ts';
import { DiskStreams } from '../../../internal/file/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';

/** The bundle of one version, as the workstation has it. */
export interface LocalBundle {
  readonly manifest: BundleManifest;
  /** Its exact bytes: what the machine is sent and its hash is taken of. */
  readonly manifestBytes: Uint8Array;
  readonly store: BlobStore;
}

/** @throws ClusterError `cluster-bundle-missing` with the command that makes it */
export async function readLocalBundle(
  context: Pick<CommandContext, 'ports' | 'paths'>,
  kubernetesVersion: string,
  architecture: string,
): Promise<LocalBundle> {
  const { cache } = context.paths;
  const known = ARCHITECTURES.find((each) => each === architecture);
  if (known === undefined) {
    throw new ClusterError(
      'cluster-bundle-missing',
      `choosing a bundle: the machine is ${JSON.stringify(architecture)}`,
    );
  }
  const name = bundleName(kubernetesVersion, known);
  const path = join(cache, 'bundles', `${name}.json`);
  const manifestBytes = await context.ports.files.read(path, MAX_MANIFEST_BYTES);
  if (manifestBytes === undefined) {
    throw new ClusterError('cluster-bundle-missing', `reading bundle ${name}: ${path} does not exist`);
  }
  const store = new BlobStore({ files: context.ports.files, streams: new DiskStreams(), roots: [cache] });
  return { manifest: parseManifest(manifestBytes), manifestBytes, store };
}

/** In the words of bundles: charts and helm are taken from the bundle of the machine that runs helm. */
export function workstationArchitecture(): string {
  return arch() === 'x64' ? 'amd64' : arch();
}
