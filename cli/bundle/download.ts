import { Backoff } from '../../internal/clock/index.ts';
import { childSignal, TimeoutError, withTimeout } from '../../internal/cleanup/index.ts';
import type { BlobStore } from '../../internal/bundle/index.ts';
import type { BundleContext } from './context.ts';
import { BundleMakingError } from './errors.ts';

const ATTEMPTS = 5;
const PAUSES = { firstMs: 500, factor: 2, longestMs: 8_000 };
const STALL_MS = 30_000;
const MAX_TEXT_BYTES = 1024 * 1024;

type Http = Pick<BundleContext, 'ports' | 'signal'>;

/** What is fetched and the hash that its project publishes for it. */
export interface Download {
  readonly url: string;
  /** For messages. */
  readonly name: string;
  readonly sha256: string;
}

/**
 * Fetches a file into the store, from the byte where an earlier attempt of this or another run stopped.
 * @throws BundleError `bundle-blob-corrupt`, BundleMakingError `bundlebuild-download`
 */
export async function downloadBlob(
  context: Http,
  store: BlobStore,
  file: Download,
  onBytes: (value: number) => void,
): Promise<void> {
  if (await store.has(file.sha256)) return;
  const backoff = new Backoff(PAUSES);
  for (let attempt = 1; ; attempt++) {
    try {
      await appendRest(context, store, file, onBytes);
      break;
    } catch (error) {
      const retryable = error instanceof BundleMakingError && error.retryable;
      if (!retryable || attempt === ATTEMPTS) throw error;
      await context.ports.clock.sleep(backoff.nextMs(), context.signal);
    }
  }
  await store.commit(file.sha256, context.signal).catch((cause: unknown) => {
    context.signal.throwIfAborted();
    throw new BundleMakingError('bundlebuild-checksum', `fetching ${file.name} from ${file.url}`, { cause });
  });
}

/** A short text, whole. @throws BundleMakingError `bundlebuild-download` */
export async function downloadText(context: Http, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  await receive(context, { url, offset: 0 }, (chunk) => {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_TEXT_BYTES) {
      throw new BundleMakingError(
        'bundlebuild-download',
        `fetching ${url}: more than ${MAX_TEXT_BYTES} bytes`,
        {
          retryable: false,
        },
      );
    }
    return Promise.resolve();
  });
  return Buffer.concat(chunks).toString();
}

async function appendRest(
  context: Http,
  store: BlobStore,
  file: Download,
  onBytes: (value: number) => void,
): Promise<void> {
  let offset = await store.partialSize(file.sha256);
  await receive(context, { url: file.url, offset }, async (chunk, start) => {
    if (start !== undefined && start !== offset) {
      // The server knows no ranges and begins anew; so do we.
      await store.discard(file.sha256);
      offset = start;
    }
    offset = await store.append(file, offset, chunk);
    onBytes(offset);
  });
}

/** Hands over each chunk; `start` comes with the first one and says where in the file it lies. */
async function receive(
  context: Http,
  from: { readonly url: string; readonly offset: number },
  onChunk: (chunk: Uint8Array, start: number | undefined) => Promise<void>,
): Promise<void> {
  const { url, offset } = from;
  const { clock, http } = context.ports;
  using request = childSignal(context.signal);
  const unstalled = async <T>(work: () => Promise<T>): Promise<T> => {
    const options = { what: `fetching ${url}`, ms: STALL_MS, clock, signal: context.signal };
    return withTimeout(options, work).catch((cause: unknown) => {
      if (!(cause instanceof TimeoutError)) throw cause;
      throw new BundleMakingError('bundlebuild-download', `fetching ${url}`, { cause });
    });
  };
  try {
    const answer = await unstalled(() => http.get(url, { offset, signal: request.signal }));
    if (answer === undefined) return;
    const chunks = answer.body[Symbol.asyncIterator]();
    for (let start: number | undefined = answer.offset; ; start = undefined) {
      const next = await unstalled(() => chunks.next());
      if (next.done === true) return;
      await onChunk(next.value, start);
    }
  } finally {
    // Ends a connection that is still open: stalled, refused, or left in the middle.
    request.abort(new DOMException('the download has ended', 'AbortError'));
  }
}
