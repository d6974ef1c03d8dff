import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { TokenReviews, Verdict } from './token-reviews.ts';

/** Limits for clients, which are unauthenticated until their token is reviewed. */
const LIMITS = {
  handshakeTimeout: 5_000,
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  /** Longer than the scrape interval of Prometheus, so that Prometheus can keep its connection. */
  keepAliveTimeout: 90_000,
  maxHeaderSize: 16 * 1024,
} as const;
const MAX_CONNECTIONS = 32;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
/** A JSON web token (RFC 7515, section 7.1). */
const BEARER = /^Bearer ([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/;
const STATUS: Readonly<Record<Exclude<Verdict, 'allowed'>, number>> = { refused: 403, unknown: 503 };

/** The address to listen on, the metrics to serve, and the rule that decides who may read them. */
export interface ExporterOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls: { readonly certPem: string; readonly keyPem: Secret<string> };
  readonly reviews: Pick<TokenReviews, 'judge'>;
  readonly render: (signal: AbortSignal) => Promise<string>;
  readonly onListening?: (port: number) => void;
}

/** Serves GET /metrics over TLS to holders of a token that may read metrics, until the signal fires. */
export async function serveExporter(options: ExporterOptions, signal: AbortSignal): Promise<never> {
  const { listen, tls, onListening } = options;
  const server = createServer(
    { cert: tls.certPem, key: tls.keyPem.reveal(), minVersion: 'TLSv1.3', ...LIMITS },
    (request, response) => {
      respond(options, { request, response }, signal).catch(() => {
        if (!response.headersSent) response.writeHead(500);
        response.end();
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  try {
    server.listen(listen.port, listen.host);
    await once(server, 'listening');
    onListening?.((server.address() as AddressInfo).port);
    const failed = new Promise<never>((_, reject) => server.once('error', reject));
    return await Promise.race([failed, untilAborted(signal)]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

async function respond(
  { reviews, render }: ExporterOptions,
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  signal: AbortSignal,
): Promise<void> {
  const [, token] = BEARER.exec(request.headers.authorization ?? '') ?? [];
  if (token === undefined) {
    response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    return;
  }
  const verdict = await reviews.judge(token, signal);
  if (verdict !== 'allowed') {
    response.writeHead(STATUS[verdict]).end();
    return;
  }
  if (request.method !== 'GET' || request.url !== '/metrics') {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': CONTENT_TYPE }).end(await render(signal));
}
