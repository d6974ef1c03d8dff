import { BundleMakingError } from './errors.ts';

/** The beginning, or the rest, of something at an address. */
export interface HttpAnswer {
  /** Where the body starts: the offset asked for, or 0 when the server knows no ranges. */
  readonly offset: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Downloads as a port. */
export interface HttpPort {
  /**
   * GET, from `offset` on where the server can. Follows redirects. Answers undefined when `offset` is
   * the end already (416).
   * @throws BundleMakingError `bundlebuild-download`
   */
  get(
    url: string,
    options: { readonly offset?: number; readonly signal: AbortSignal },
  ): Promise<HttpAnswer | undefined>;
}

/** The platform's own `fetch`: proxies and authorities from the environment, as Node does it. */
export class FetchHttp implements HttpPort {
  async get(
    url: string,
    options: { readonly offset?: number; readonly signal: AbortSignal },
  ): Promise<HttpAnswer | undefined> {
    const offset = options.offset ?? 0;
    // Ranges and lengths are those of the file: a compressed answer would have others.
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
      throw new BundleMakingError('bundlebuild-download', `fetching ${url}: HTTP status ${response.status}`, {
        retryable,
      });
    }
    return { offset: startOf(response, offset), body: bodyOf(response.body, url, options.signal) };
  }
}

/** A server may answer a range request with another range, or with everything. */
function startOf(response: Response, asked: number): number {
  if (response.status !== 206) return 0;
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  return start === undefined ? asked : Number(start);
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
    : new BundleMakingError('bundlebuild-download', `fetching ${url}`, { cause });
}
