import type { BlobStore, Component } from '../../../internal/bundle/index.ts';
import { mapConcurrently } from '../../../internal/cleanup/index.ts';
import { formatBytes } from '../../host/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { retryConnection } from '../retry-connection.ts';
import type { InitSession } from '../machine/init-session.ts';

/** Number of concurrent uploads. While the machine hashes a finished blob, the others keep the link busy. */
const PARALLEL = 3;
const ANSWER_MS = 60_000;
const CHUNK_BYTES = 256 * 1024;

/** A component of the bundle, or a snapshot of a backup. */
export type UploadItem = Pick<Component, 'name' | 'sha256' | 'sizeBytes' | 'scope'>;
/** Everything that a machine needs. */
export interface UploadManifest {
  readonly name: string;
  readonly components: readonly UploadItem[];
}
/** The bytes of the items. */
export type UploadStore = Pick<BlobStore, 'has' | 'read'>;

/** Number and total size of the uploaded components. */
export interface UploadSummary {
  readonly blobs: number;
  readonly bytes: number;
}

/**
 * Uploads the components that the machine lacks, three in parallel. An interrupted upload resumes at the first missing byte.
 * @throws ClusterError `cluster-node-disk-full`, `cluster-bundle-missing`, `cluster-unreachable`
 */
export async function uploadMissing(
  context: Pick<CommandContext, 'ports' | 'signal'>,
  what: { readonly session: InitSession; readonly manifest: UploadManifest; readonly store: UploadStore },
  progress: StepProgress,
): Promise<UploadSummary> {
  const { session, manifest, store } = what;
  const wanted = manifest.components.filter(({ scope }) => scope === 'node' || scope === 'controlplane');
  const sizes = new Map(wanted.map((component) => [component.sha256, component]));
  const { clock } = context.ports;
  const tries = { clock, signal: context.signal, doing: `uploading to ${session.machine.endpoint}` };
  const note = (why: string): void => progress.update(`connection lost (${why}), retrying`);
  const stat = (hashes: readonly string[]) => statBlobs(session, hashes, context.signal);
  const first = await retryConnection({ ...tries, onLost: note }, () => stat([...sizes.keys()]));
  const missing = first.blobs
    .filter((blob) => !blob.complete)
    .flatMap(({ sha256 }) => sizes.get(sha256) ?? []);
  const total = missing.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const there = first.blobs.reduce((sum, blob) => sum + (blob.complete ? 0 : Number(blob.partialBytes)), 0);
  refuseFullDisk(total - there, Number(first.freeBytes), session);
  await refuseMissingLocally(store, missing, manifest);

  const sent = new Map<string, number>();
  const show = (name: string): void => {
    const value = [...sent.values()].reduce((sum, bytes) => sum + bytes, 0);
    progress.update(name, { of: total, value, unit: 'bytes' });
  };
  const uploadOne = (component: UploadItem): Promise<void> =>
    retryConnection({ ...tries, onLost: note }, async (alive) => {
      const [blob] = (await stat([component.sha256])).blobs;
      if (blob?.complete === true) return;
      const offset = Number(blob?.partialBytes ?? 0n);
      await sendBlob({ session, store, component, offset, signal: context.signal }, (bytes) => {
        alive();
        sent.set(component.sha256, bytes);
        show(component.name);
      });
      sent.set(component.sha256, component.sizeBytes);
      show(component.name);
    });
  // Errors of the machine contain only the hash; add the name.
  const named = (component: UploadItem): Promise<void> =>
    uploadOne(component).catch((cause: unknown) => {
      context.signal.throwIfAborted();
      throw new Error(`uploading ${component.name}`, { cause });
    });
  await mapConcurrently(missing, PARALLEL, named);
  return { blobs: missing.length, bytes: total - there };
}

function statBlobs(session: InitSession, sha256: readonly string[], signal: AbortSignal) {
  return session.client.statBlobs({ sha256: [...sha256] }, { signal, timeoutMs: ANSWER_MS });
}

async function sendBlob(
  what: {
    readonly session: InitSession;
    readonly store: UploadStore;
    readonly component: UploadItem;
    readonly offset: number;
    readonly signal: AbortSignal;
  },
  onSent: (bytes: number) => void,
): Promise<void> {
  const { session, store, component, offset, signal } = what;
  const { sha256, sizeBytes } = component;
  async function* parts() {
    const start = { sha256, sizeBytes: BigInt(sizeBytes), offset: BigInt(offset) };
    yield { part: { case: 'start' as const, value: start } };
    let at = offset;
    for await (const chunk of store.read(sha256, { offset, signal })) {
      for (let from = 0; from < chunk.length; from += CHUNK_BYTES) {
        const value = chunk.subarray(from, from + CHUNK_BYTES);
        yield { part: { case: 'chunk' as const, value } };
        at += value.length;
        onSent(at);
      }
    }
  }
  await session.client.uploadBlob(parts(), { signal });
}

function refuseFullDisk(neededBytes: number, freeBytes: number, session: InitSession): void {
  if (neededBytes <= freeBytes) return;
  throw new ClusterError(
    'cluster-node-disk-full',
    `not enough disk space on ${session.machine.endpoint}: ${formatBytes(neededBytes)} needed, ${formatBytes(freeBytes)} free`,
  );
}

async function refuseMissingLocally(
  store: UploadStore,
  missing: readonly UploadItem[],
  manifest: UploadManifest,
): Promise<void> {
  const held = await Promise.all(missing.map(({ sha256 }) => store.has(sha256)));
  const absent = missing.filter((_, index) => held[index] === false).map(({ name }) => name);
  if (absent.length === 0) return;
  throw new ClusterError(
    'cluster-bundle-missing',
    `bundle ${manifest.name} is incomplete: ${absent.join(', ')} not found`,
    {
      details: { bundle: manifest.name, absent },
    },
  );
}
