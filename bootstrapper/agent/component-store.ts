import type { BlobStore, BlobReference } from '../../internal/bundle/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import type { BlobUploads } from '../initserver/index.ts';
import type { ComponentPorts } from '../kubernetes/index.ts';

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

/** The store as components come out of it: nothing is used that was not checked on the way. */
export function createComponentSource({
  store,
  files,
  streams,
  signal,
}: StorePorts): Pick<ComponentPorts, 'install' | 'blob'> {
  return {
    blob: (component) => store.verify(component, signal),
    install: async (component, path) => {
      const mark = installedMark(path);
      if (await isInstalled(files, component, path, mark)) return 'already';
      const from = await store.verify(component, signal);
      const temporary = `${path}.new`;
      await files.makeDirectory(path.slice(0, path.lastIndexOf('/')), EXECUTABLE);
      await files.remove(temporary);
      await streams.copy(from, temporary);
      await streams.publish(temporary, path, EXECUTABLE);
      await files.makeDirectory(mark.slice(0, mark.lastIndexOf('/')));
      await files.writeAtomic(mark, `${component.sha256}\n`);
      return 'installed';
    },
  };
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
