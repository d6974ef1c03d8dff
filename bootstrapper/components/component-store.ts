import { BundleError, type BlobStore, type BlobReference } from '../../internal/bundle/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
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

/** The store as the Init contract fills it. */
export function createBlobUploads({ store, streams, signal }: StorePorts, folder: string): BlobUploads {
  return {
    state: async (sha256) => {
      const complete = await store.has(sha256);
      return { complete, partialBytes: complete ? 0 : await store.partialSize(sha256) };
    },
    append: async (blob, offset, bytes) => void (await store.append(blob, offset, bytes)),
    commit: (blob) => store.commit(blob, signal),
    freeBytes: () => streams.freeBytes(folder),
  };
}

/** How components leave the store. */
export type ComponentSource = Pick<ComponentPorts, 'install' | 'blobPath' | 'fetch'>;

/** Brings a blob that is not here into the store, from whoever has it. */
export type BlobFetch = (blob: BlobReference, signal: AbortSignal) => Promise<void>;

/**
 * The store as components come out of it: nothing is used that was not checked on the way. What is not here, or is here
 * with other bytes, is fetched; where nobody can be asked, the store's own word stands.
 */
export function createComponentSource(ports: StorePorts, fetch: BlobFetch): ComponentSource {
  const { store, files, streams, signal } = ports;
  return {
    blobPath: (component) => checked(ports, fetch, component),
    fetch: async (component, childSignal, onFetch) => {
      if (await store.has(component.sha256)) return false;
      onFetch();
      await fetchOrSay(fetch, component, childSignal);
      return true;
    },
    install: async (component, path) => {
      const mark = installedMark(path);
      if (await isInstalled(files, component, path, mark)) return 'already';
      const from = await checked(ports, fetch, component);
      const temporary = `${path}.new`;
      await files.makeDirectory(path.slice(0, path.lastIndexOf('/')), EXECUTABLE);
      await files.remove(temporary);
      await streams.copy(from, temporary);
      await streams.publish(temporary, path, EXECUTABLE);
      await files.makeDirectory(mark.slice(0, mark.lastIndexOf('/')));
      await files.writeAtomic(mark, `${component.sha256}\n`);
      signal.throwIfAborted();
      return 'installed';
    },
  };
}

async function checked(
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
    await fetchOrSay(fetch, component, signal, damaged ? error : undefined);
    return store.verify(component, signal);
  }
}

/**
 * A node that creates the cluster has nobody to ask but its owner, who uploads what is not here with the same command:
 * then it matters which component it is, and whether it was here with other bytes.
 */
async function fetchOrSay(
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
      throw new KubernetesError('kubernetes-component-damaged', `taking ${name} from the store`, {
        cause: damaged,
      });
    throw new KubernetesError('kubernetes-component-missing', `component ${name} not found: blob ${sha256}`, {
      cause,
    });
  }
}

/** Which blob a program came from. Written after the program is durable, so a crash only repeats the copy. */
function installedMark(path: string): string {
  return `/var/lib/cluster/components/${path.slice(path.lastIndexOf('/') + 1)}`;
}

async function isInstalled(
  files: FilePort,
  component: BlobReference,
  path: string,
  mark: string,
): Promise<boolean> {
  const [stat, marked] = await Promise.all([files.stat(path), files.read(mark, 4096)]);
  return (
    stat?.kind === 'file' &&
    stat.sizeBytes === component.sizeBytes &&
    Buffer.from(marked ?? [])
      .toString('utf8')
      .trim() === component.sha256
  );
}
