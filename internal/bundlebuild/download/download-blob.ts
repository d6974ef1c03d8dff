import type { BlobStore } from '../../bundle/index.ts';
import { childSignal, TimeoutError, withTimeout } from '../../cleanup/index.ts';
import { Backoff } from '../../clock/index.ts';
import { formatBytes } from '../../printable/index.ts';
import type { BuildContext, BuildProgress } from '../build-context.ts';
import { BundleBuildError } from '../errors.ts';
import type { HttpResponse } from './http-port.ts';

const ATTEMPTS = 5;
const PAUSES = { firstMs: 500, factor: 2, longestMs: 8_000 };
const STALL_MS = 30_000;
const ANSWER_MS = 10_000;
const BEHIND_END = Number.MAX_SAFE_INTEGER;
const MAX_TEXT_BYTES = 1024 * 1024;

/** The parts of a build's context that downloads need. */
export type DownloadContext = Pick<BuildContext, 'ports' | 'signal'>;

/** A file to download and the hash that its project publishes for it. */
export interface Download {
  readonly url: string;
  /** For messages. */
  readonly name: string;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** Reports the number of bytes received so far, and the size of the file if the server states it. */
export type OnBytes = (bytes: number, sizeBytes: number | undefined) => void;

/** Shows the bytes as progress of a step. */
export function showBytes(progress: BuildProgress): OnBytes {
  return (value, of) => {
    if (of === undefined) progress.update(formatBytes(value));
    else progress.update('', { of, value, unit: 'bytes' });
  };
}

/**
 * The partial file to which the bytes of a download are written. Nobody may trust the bytes before the caller has
 * checked their hash.
 */
export interface PartialFile {
  /** Number of bytes that earlier attempts received. */
  sizeBytes(): Promise<number>;
  /** Returns the new size. */
  append(offset: number, bytes: Uint8Array): Promise<number>;
  discard(): Promise<void>;
}

/**
 * Downloads a file into the store. Resumes at the byte where an earlier attempt of this or another run stopped.
 * @throws BundleBuildError `bundlebuild-checksum`, `bundlebuild-download`
 */
export async function downloadBlob(
  context: DownloadContext,
  store: BlobStore,
  file: Download,
  onBytes: OnBytes,
): Promise<void> {
  if (await store.has(file.sha256)) return;
  const partial: PartialFile = {
    sizeBytes: () => store.partialSize(file.sha256),
    append: (offset, bytes) => store.append(file, offset, bytes),
    discard: () => store.discard(file.sha256),
  };
  await downloadFile(context, file.url, partial, onBytes);
  await store.commit(file.sha256, context.signal).catch((cause: unknown) => {
    context.signal.throwIfAborted();
    throw new BundleBuildError('bundlebuild-checksum', `downloading ${file.name} from ${file.url}`, {
      cause,
    });
  });
}

/**
 * Downloads what is missing of a file, in up to five attempts.
 * @throws BundleBuildError `bundlebuild-download`
 */
export async function downloadFile(
  context: DownloadContext,
  url: string,
  partial: PartialFile,
  onBytes: OnBytes,
): Promise<void> {
  const backoff = new Backoff(PAUSES);
  for (let attempt = 1; ; attempt++) {
    try {
      await appendRest(context, url, partial, onBytes);
      return;
    } catch (error) {
      const retryable = error instanceof BundleBuildError && error.retryable;
      if (!retryable || attempt === ATTEMPTS) throw error;
      await context.ports.clock.sleep(backoff.nextMs(), context.signal);
    }
  }
}

/**
 * Checks that the server of this URL answers, with any status. Waits ten seconds at most.
 * @throws BundleBuildError `bundlebuild-download` when it does not
 */
export async function checkReachable(context: DownloadContext, url: string): Promise<void> {
  using request = childSignal(context.signal);
  try {
    await unstalled(context, url, ANSWER_MS, () =>
      // A range behind the end of the file: the server answers with a status and sends no bytes.
      context.ports.http.get(url, { offset: BEHIND_END, signal: request.signal }),
    );
  } catch (error) {
    if (!(error instanceof BundleBuildError) || error.retryable) throw error;
  } finally {
    request.abort(new DOMException('the server has answered', 'AbortError'));
  }
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
  url: string,
  partial: PartialFile,
  onBytes: OnBytes,
): Promise<void> {
  let offset = await partial.sizeBytes();
  await receive(context, { url, offset }, async (chunk, response) => {
    if (response.offset !== offset && response.isFirst) {
      // The server does not support ranges and sends the file from its start.
      await partial.discard();
      offset = response.offset;
    }
    offset = await partial.append(offset, chunk);
    onBytes(offset, response.sizeBytes);
  });
}

/**
 * The facts that `receive` reports with a chunk: whether the chunk is the first one, and the offset and size that the
 * response states.
 */
interface Received extends Pick<HttpResponse, 'offset' | 'sizeBytes'> {
  readonly isFirst: boolean;
}

/** Calls `onChunk` for each chunk. */
async function receive(
  context: DownloadContext,
  from: { readonly url: string; readonly offset: number },
  onChunk: (chunk: Uint8Array, response: Received) => Promise<void>,
): Promise<void> {
  const { url, offset } = from;
  using request = childSignal(context.signal);
  try {
    const response = await unstalled(context, url, STALL_MS, () =>
      context.ports.http.get(url, { offset, signal: request.signal }),
    );
    if (response === undefined) return;
    const chunks = response.body[Symbol.asyncIterator]();
    for (let isFirst = true; ; isFirst = false) {
      const next = await unstalled(context, url, STALL_MS, () => chunks.next());
      if (next.done === true) return;
      await onChunk(next.value, { offset: response.offset, sizeBytes: response.sizeBytes, isFirst });
    }
  } finally {
    // Closes a connection that is still open after a stall or an error.
    request.abort(new DOMException('the download has ended', 'AbortError'));
  }
}

/** Waits for the server, but not longer than `ms`. */
function unstalled<T>(context: DownloadContext, url: string, ms: number, work: () => Promise<T>): Promise<T> {
  const options = { what: `downloading ${url}`, ms, clock: context.ports.clock, signal: context.signal };
  return withTimeout(options, work).catch((cause: unknown) => {
    if (!(cause instanceof TimeoutError)) throw cause;
    throw new BundleBuildError('bundlebuild-download', `downloading ${url}`, { cause });
  });
}
