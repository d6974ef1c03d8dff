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

/** The bundle of one Kubernetes version on this workstation. */
export interface LocalBundle {
  readonly manifest: BundleManifest;
  /** The exact bytes: they are sent to the machine, and their hash identifies the bundle. */
  readonly manifestBytes: Uint8Array;
  readonly store: BlobStore;
}

/** Reads the bundle from the cache. @throws ClusterError `cluster-bundle-missing` */
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
      `no bundle for architecture ${JSON.stringify(architecture)}`,
    );
  }
  const name = bundleName(kubernetesVersion, known);
  const path = join(cache, 'bundles', `${name}.json`);
  const manifestBytes = await context.ports.files.read(path, MAX_MANIFEST_BYTES);
  if (manifestBytes === undefined) {
    throw new ClusterError('cluster-bundle-missing', `bundle ${name} not found: ${path} does not exist`);
  }
  const store = new BlobStore({ files: context.ports.files, streams: new DiskStreams(), roots: [cache] });
  return { manifest: parseManifest(manifestBytes), manifestBytes, store };
}

/** The manifest of the bundle of one Kubernetes version on this workstation; undefined if the workstation does not have it. */
export async function findLocalManifest(
  context: Pick<CommandContext, 'ports' | 'paths'>,
  kubernetesVersion: string,
  architecture: string,
): Promise<Pick<LocalBundle, 'manifest' | 'manifestBytes'> | undefined> {
  try {
    return await readLocalBundle(context, kubernetesVersion, architecture);
  } catch (error) {
    if (error instanceof ClusterError && error.code === 'cluster-bundle-missing') return undefined;
    throw error;
  }
}

/** Architecture of this workstation, as bundles name it: charts and helm come from its bundle. */
export function workstationArchitecture(): string {
  return arch() === 'x64' ? 'amd64' : arch();
}
