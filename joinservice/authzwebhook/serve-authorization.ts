import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Logger } from '../../internal/logging/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import {
  RECORDED_PERSONS_PATH,
  renderRecordedPersons,
  type RecordedPerson,
} from '../../internal/role/index.ts';
import type { MembershipLookup } from './membership-lookup.ts';
import {
  claimOf,
  decideReview,
  parseReview,
  renderDecision,
  type ReviewDecision,
  type ReviewSubject,
} from './access-review.ts';
import { UnauthenticatedConnections } from './unauthenticated-connections.ts';

/** The webhook listens on the loopback only, because the API server is on this machine. */
const HOST = '127.0.0.1';
const PATH = '/authorize';
/** The common name of the client certificate that the API server uses for etcd and for this webhook. */
const CALLER = 'apiserver';
const MAX_BYTES = 256 * 1024;
const REQUEST_MS = 5_000;
/**
 * Connections that have not shown a client certificate yet. The API server shows its certificate within
 * milliseconds.
 */
const MAX_UNAUTHENTICATED = 64;
/** Authenticated connections. The API server reuses a few of them. */
const MAX_CONNECTIONS = 256;
/** Less than the 90 s after which the API server closes an idle connection (net/http, DefaultTransport). */
const KEEP_MS = 75_000;

/** The listen address of the webhook, and the clients that it accepts. */
export interface AuthorizationListener {
  /** 0 for any free port. */
  readonly port: number;
  /** The node certificate; the API server expects the node ID in it. */
  readonly identity: TlsIdentity;
  /** The CA of etcd clients. It issues the certificate of the API server, but no kubelet certificate. */
  readonly callersCaPem: string;
  readonly onListening?: ((port: number) => void) | undefined;
}

/** What the webhook knows about nodes and people. */
export interface AuthorizationSources {
  readonly lookup: MembershipLookup;
  /** The people whose requests are not denied. Rejects while etcd is unavailable. */
  readonly persons: (signal: AbortSignal) => Promise<readonly RecordedPerson[]>;
  readonly log: Logger;
}

/**
 * Answers SubjectAccessReviews of this node's API server until the signal fires, and gives this node's agent the list of the people about
 * whom the API server need not ask. Both callers have the client certificate of the API server.
 */
export async function serveAuthorization(
  place: AuthorizationListener,
  sources: AuthorizationSources,
  signal: AbortSignal,
): Promise<never> {
  const { identity, callersCaPem } = place;
  const { log } = sources;
  const server = createServer(
    {
      cert: identity.certPem,
      key: identity.keyPem.reveal(),
      ca: callersCaPem,
      requestCert: true,
      rejectUnauthorized: true,
      minVersion: 'TLSv1.3',
      requestTimeout: REQUEST_MS,
      headersTimeout: REQUEST_MS,
      handshakeTimeout: REQUEST_MS,
      keepAliveTimeout: KEEP_MS,
      maxHeaderSize: 16 * 1024,
    },
    (request, response) => {
      answer(request, { ...sources, signal }).then(
        ({ status, body }) => end(response, status, body),
        (error: unknown) => {
          // After status 500 the API server retries, and then denies.
          log.warn('authorizing a request failed', { error });
          end(response, 500, '');
        },
      );
    },
  );
  const unauthenticated = new UnauthenticatedConnections(MAX_UNAUTHENTICATED);
  server.on('connection', (socket: Socket) => unauthenticated.add(socket));
  server.on('secureConnection', (socket) => unauthenticated.authenticated(socket));
  server.maxConnections = MAX_UNAUTHENTICATED + MAX_CONNECTIONS;
  const stopped = Promise.withResolvers<never>();
  server.on('error', stopped.reject);
  const onAbort = (): void => stopped.reject(signal.reason);
  try {
    server.listen(place.port, HOST);
    await Promise.race([once(server, 'listening'), stopped.promise]);
    place.onListening?.((server.address() as AddressInfo).port);
    log.info('authorization webhook listening', { host: HOST });
    signal.addEventListener('abort', onAbort, { once: true });
    signal.throwIfAborted();
    return await stopped.promise;
  } finally {
    signal.removeEventListener('abort', onAbort);
    server.close();
    server.closeAllConnections();
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function answer(
  request: IncomingMessage,
  ports: AuthorizationSources & { readonly signal: AbortSignal },
): Promise<Answer> {
  if (!isCaller(request.socket as TLSSocket)) return { status: 403, body: '' };
  if (request.method === 'GET' && request.url === RECORDED_PERSONS_PATH)
    return { status: 200, body: renderRecordedPersons(await ports.persons(ports.signal)) };
  // The API server adds query parameters.
  if (request.method !== 'POST' || request.url?.split('?')[0] !== PATH) return { status: 404, body: '' };
  const text = await bodyOf(request);
  if (text === undefined) return { status: 413, body: '' };
  let subject;
  try {
    subject = parseReview(text);
  } catch {
    return { status: 400, body: '' };
  }
  return { status: 200, body: renderDecision(await decide(subject, ports)) };
}

/** While etcd is unavailable, the webhook has no opinion about owners, so that an owner can repair the cluster. */
async function decide(
  subject: ReviewSubject,
  { lookup, log, signal }: Omit<AuthorizationSources, 'persons'> & { readonly signal: AbortSignal },
): Promise<ReviewDecision> {
  const claim = claimOf(subject);
  try {
    return decideReview(subject, claim && (await lookup(claim, signal)));
  } catch (error) {
    if (claim?.isOwner !== true) throw error;
    log.warn('looking up an owner failed', { error });
    return { kind: 'no-opinion' };
  }
}

/** Cached for each connection, because parsing the certificate takes a tenth of the time of a request. */
const callers = new WeakMap<TLSSocket, boolean>();

function isCaller(socket: TLSSocket): boolean {
  const known = callers.get(socket) ?? socket.getPeerCertificate().subject.CN === CALLER;
  callers.set(socket, known);
  return known;
}

/** The body of a request; undefined if it is longer than any review. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let sizeBytes = 0;
  for await (const part of request) {
    const bytes = part as Buffer;
    sizeBytes += bytes.length;
    if (sizeBytes > MAX_BYTES) return undefined;
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString('utf8');
}

function end(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}
