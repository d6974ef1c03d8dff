import { basename, dirname } from 'node:path';
import { BundleError, type BlobStore, type BlobReference } from '../../internal/bundle/index.ts';
import { readText, type FilePort, type StreamPort } from '../../internal/file/index.ts';
import { CuratorClientError } from '../curatorclient/index.ts';
import type { BlobUploads } from '../initserver/index.ts';
import { KubernetesError, type ComponentPorts } from '../kubernetes/index.ts';

const EXECUTABLE = 0o755;

interface StorePorts {
  readonly store: BlobStore;
  readonly files: FilePort;
  readonly streams: StreamPort;
  readonly signal: AbortSignal;
}

/** The blob store for components that an owner uploads through the Init contract (the API that creates a cluster). */
export function createBlobUploads({ store, streams, signal }: StorePorts, directory: string): BlobUploads {
  return {
    state: async (sha256) => {
      const complete = await store.has(sha256);
      return { complete, partialBytes: complete ? 0 : await store.partialSize(sha256) };
    },
    append: async (blob, offset, bytes) => void (await store.append(blob, offset, bytes)),
    commit: (blob) => store.commit(blob, signal),
    freeBytes: () => streams.freeBytes(directory),
  };
}

/**
 * Components from the blob store. Missing components are fetched, and each component is verified before each
 * use.
 */
export type ComponentSource = Pick<ComponentPorts, 'install' | 'blobPath' | 'fetch'>;

/** Fetches a missing blob into the store. */
export type BlobFetch = (blob: BlobReference, signal: AbortSignal) => Promise<void>;

/**
 * Creates a source of verified components. It fetches a missing or damaged component; without a curator it
 * throws an error.
 */
export function createComponentSource(ports: StorePorts, fetch: BlobFetch): ComponentSource {
  const { store, files, streams, signal } = ports;
  return {
    blobPath: (component) => verifiedPath(ports, fetch, component),
    fetch: async (component, childSignal, onFetch) => {
      if (await store.has(component.sha256)) return false;
      onFetch();
      await fetchOrExplain(fetch, component, childSignal);
      return true;
    },
    install: async (component, path) => {
      const record = installRecordPath(path);
      if (await isInstalled(files, component, path, record)) return 'already';
      const from = await verifiedPath(ports, fetch, component);
      const temporary = `${path}.new`;
      await files.makeDirectory(dirname(path), EXECUTABLE);
      await files.remove(temporary);
      await streams.copy(from, temporary);
      await streams.publish(temporary, path, EXECUTABLE);
      await files.makeDirectory(dirname(record));
      await files.writeAtomic(record, `${component.sha256}\n`);
      signal.throwIfAborted();
      return 'installed';
    },
  };
}

async function verifiedPath(
  { store, signal }: StorePorts,
  fetch: BlobFetch,
  component: BlobReference,
): Promise<string> {
  try {
    return await store.verify(component, signal);
  } catch (error) {
    if (!(error instanceof BundleError)) throw error;
    const damaged = error.code === 'bundle-blob-corrupt';
    if (damaged) await store.remove(component.sha256);
    await fetchOrExplain(fetch, component, signal, damaged ? error : undefined);
    return store.verify(component, signal);
  }
}

/**
 * Fetches a component. The first node has no curator from which it could fetch. There, the owner uploads
 * missing components by running the same command again, so the error names the component and says whether it
 * was damaged.
 */
async function fetchOrExplain(
  fetch: BlobFetch,
  component: BlobReference,
  signal: AbortSignal,
  damaged?: BundleError,
): Promise<void> {
  try {
    await fetch(component, signal);
  } catch (cause) {
    if (!(cause instanceof CuratorClientError && cause.code === 'curatorclient-no-curator')) throw cause;
    const { name, sha256 } = component;
    if (damaged !== undefined)
      throw new KubernetesError('kubernetes-component-damaged', `component ${name} damaged in the store`, {
        cause: damaged,
      });
    throw new KubernetesError('kubernetes-component-missing', `component ${name} not found: blob ${sha256}`, {
      cause,
    });
  }
}

/**
 * Path of the file that records from which blob a program was installed. The file is written last, so after a
 * crash the program is copied again.
 */
function installRecordPath(path: string): string {
  return `/var/lib/cluster/components/${basename(path)}`;
}

async function isInstalled(
  files: FilePort,
  component: BlobReference,
  path: string,
  record: string,
): Promise<boolean> {
  const [stat, recorded] = await Promise.all([files.stat(path), readText(files, record)]);
  const isWhole = stat?.kind === 'file' && stat.sizeBytes === component.sizeBytes;
  return isWhole && recorded?.trim() === component.sha256;
}
