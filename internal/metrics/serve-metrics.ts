import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { untilAborted, withTimeout } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';

/** Loopback only: metrics are not for unauthenticated clients. */
const HOST = '127.0.0.1';
const MAX_BYTES = 4 * 1024 * 1024;
const ANSWER_MS = 5_000;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Serves GET /metrics until the signal fires. */
export async function serveMetrics(
  options: {
    readonly port: number;
    readonly render: () => string | Promise<string>;
    readonly onListening?: (port: number) => void;
  },
  signal: AbortSignal,
): Promise<never> {
  const server = createServer({ requestTimeout: ANSWER_MS }, (request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    Promise.resolve()
      .then(options.render)
      .then(
        (text) => response.writeHead(200, { 'content-type': CONTENT_TYPE }).end(text),
        () => response.writeHead(500).end(),
      );
  });
  server.maxConnections = 16;
  try {
    server.listen(options.port, HOST);
    await once(server, 'listening');
    options.onListening?.((server.address() as AddressInfo).port);
    const failed = new Promise<never>((_, reject) => server.once('error', reject));
    return await Promise.race([failed, untilAborted(signal)]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** The text of an HTTP response, and whether its status is a success. */
export interface Page {
  readonly ok: boolean;
  readonly text: string;
}

/** Reads metrics or health from a program on this machine; undefined when it does not run or does not respond. */
export async function readPage(
  url: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Page | undefined> {
  try {
    return await withTimeout({ what: `reading ${url}`, ms: ANSWER_MS, clock, signal }, async (child) => {
      const response = await fetch(url, { signal: child });
      const text = await response.text();
      return text.length <= MAX_BYTES ? { ok: response.ok, text } : undefined;
    });
  } catch {
    signal.throwIfAborted();
    return undefined; // the metrics of the other programs are still useful
  }
}
