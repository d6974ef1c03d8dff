import { BundleBuildError } from '../errors.ts';

/** The rest of a file at a URL. */
export interface HttpResponse {
  /** Where the body starts in the file: the requested offset, or 0 when the server does not support ranges. */
  readonly offset: number;
  /** The size of the whole file, where the server states it. */
  readonly sizeBytes?: number | undefined;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Options of one request. */
export interface HttpOptions {
  /** First byte to get; default: 0. */
  readonly offset?: number;
  readonly signal: AbortSignal;
}

/** Interface (port) for downloads over HTTP. */
export interface HttpPort {
  /**
   * GET, from `offset` on where the server supports ranges. Follows redirects. Returns undefined when `offset` is the end of the
   * file (status 416).
   * @throws BundleBuildError `bundlebuild-download`, with `details.status` if the server has answered
   */
  get(url: string, options: HttpOptions): Promise<HttpResponse | undefined>;
}

/** Node's `fetch`, with proxies and CAs from the environment. */
export class FetchHttp implements HttpPort {
  async get(url: string, options: HttpOptions): Promise<HttpResponse | undefined> {
    const offset = options.offset ?? 0;
    // Ranges and lengths are those of the file; a compressed response would have others.
    const headers = { 'accept-encoding': 'identity', ...(offset === 0 ? {} : { range: `bytes=${offset}-` }) };
    const response = await fetch(url, { headers, signal: options.signal }).catch((cause: unknown) => {
      throw failure(url, options.signal, cause);
    });
    if (response.status === 416 && offset > 0) {
      await response.body?.cancel();
      return undefined;
    }
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      const retryable = response.status >= 500 || response.status === 429;
      throw new BundleBuildError(
        'bundlebuild-download',
        `downloading ${url}: HTTP status ${response.status}`,
        { retryable, details: { status: response.status } },
      );
    }
    const start = startOf(response, offset);
    return {
      offset: start,
      sizeBytes: sizeOf(response, start),
      body: bodyOf(response.body, url, options.signal),
    };
  }
}

/** A server may answer a range request with another range, or with the whole file. */
function startOf(response: Response, requested: number): number {
  if (response.status !== 206) return 0;
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  return start === undefined ? requested : Number(start);
}

/** For progress only: nothing relies on it. */
function sizeOf(response: Response, start: number): number | undefined {
  const rest = response.headers.get('content-length') ?? '';
  return /^\d{1,15}$/.test(rest) ? start + Number(rest) : undefined;
}

async function* bodyOf(
  body: ReadableStream<Uint8Array>,
  url: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    throw failure(url, signal, cause);
  }
}

function failure(url: string, signal: AbortSignal, cause: unknown): unknown {
  return signal.aborted
    ? signal.reason
    : new BundleBuildError('bundlebuild-download', `downloading ${url}`, { cause });
}
