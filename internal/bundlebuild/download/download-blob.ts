import type { BlobStore } from '../../bundle/index.ts';
import { childSignal, TimeoutError, withTimeout } from '../../cleanup/index.ts';
import { Backoff } from '../../clock/index.ts';
import type { BuildContext } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';

const ATTEMPTS = 5;
const PAUSES = { firstMs: 500, factor: 2, longestMs: 8_000 };
const STALL_MS = 30_000;
const MAX_TEXT_BYTES = 1024 * 1024;

type DownloadContext = Pick<BuildContext, 'ports' | 'signal'>;

/** A file to download and the hash that its project publishes for it. */
export interface Download {
  readonly url: string;
  /** For messages. */
  readonly name: string;
  /** Lower-case hex. */
  readonly sha256: string;
}

/**
 * Downloads a file into the store. Resumes at the byte where an earlier attempt of this or another run stopped.
 * @throws BundleBuildError `bundlebuild-checksum`, `bundlebuild-download`
 */
export async function downloadBlob(
  context: DownloadContext,
  store: BlobStore,
  file: Download,
  onBytes: (bytes: number) => void,
): Promise<void> {
  if (await store.has(file.sha256)) return;
  const backoff = new Backoff(PAUSES);
  for (let attempt = 1; ; attempt++) {
    try {
      await appendRest(context, store, file, onBytes);
      break;
    } catch (error) {
      const retryable = error instanceof BundleBuildError && error.retryable;
      if (!retryable || attempt === ATTEMPTS) throw error;
      await context.ports.clock.sleep(backoff.nextMs(), context.signal);
    }
  }
  await store.commit(file.sha256, context.signal).catch((cause: unknown) => {
    context.signal.throwIfAborted();
    throw new BundleBuildError('bundlebuild-checksum', `downloading ${file.name} from ${file.url}`, {
      cause,
    });
  });
}

/** The text of a small file. @throws BundleBuildError `bundlebuild-download` */
export async function downloadText(context: DownloadContext, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  await receive(context, { url, offset: 0 }, (chunk) => {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_TEXT_BYTES) {
      const message = `downloading ${url}: more than ${MAX_TEXT_BYTES} bytes`;
      throw new BundleBuildError('bundlebuild-download', message, { retryable: false });
    }
    return Promise.resolve();
  });
  return Buffer.concat(chunks).toString();
}

async function appendRest(
  context: DownloadContext,
  store: BlobStore,
  file: Download,
  onBytes: (bytes: number) => void,
): Promise<void> {
  let offset = await store.partialSize(file.sha256);
  await receive(context, { url: file.url, offset }, async (chunk, start) => {
    if (start !== undefined && start !== offset) {
      // The server does not support ranges and sends the file from its start.
      await store.discard(file.sha256);
      offset = start;
    }
    offset = await store.append(file, offset, chunk);
    onBytes(offset);
  });
}

/** Calls `onChunk` for each chunk; `start` comes with the first chunk and is its offset in the file. */
async function receive(
  context: DownloadContext,
  from: { readonly url: string; readonly offset: number },
  onChunk: (chunk: Uint8Array, start: number | undefined) => Promise<void>,
): Promise<void> {
  const { url, offset } = from;
  const { clock, http } = context.ports;
  using request = childSignal(context.signal);
  const unstalled = async <T>(work: () => Promise<T>): Promise<T> => {
    const options = { what: `downloading ${url}`, ms: STALL_MS, clock, signal: context.signal };
    return withTimeout(options, work).catch((cause: unknown) => {
      if (!(cause instanceof TimeoutError)) throw cause;
      throw new BundleBuildError('bundlebuild-download', `downloading ${url}`, { cause });
    });
  };
  try {
    const response = await unstalled(() => http.get(url, { offset, signal: request.signal }));
    if (response === undefined) return;
    const chunks = response.body[Symbol.asyncIterator]();
    for (let start: number | undefined = response.offset; ; start = undefined) {
      const next = await unstalled(() => chunks.next());
      if (next.done === true) return;
      await onChunk(next.value, start);
    }
  } finally {
    // Closes a connection that is still open after a stall or an error.
    request.abort(new DOMException('the download has ended', 'AbortError'));
  }
}
