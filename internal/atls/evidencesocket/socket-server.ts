import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { MAX_EVIDENCE_BYTES, type Issuer } from '../../attestation/index.ts';
import { childSignal, withTimeout } from '../../cleanup/index.ts';
import type { Clock } from '../../clock/index.ts';
import type { FilePort } from '../../file/index.ts';
import type { Logger } from '../../logging/index.ts';
import { bindingOfStatement, isStatementOf } from '../binding.ts';
import { FORMAT_OF_VARIANT } from '../trust.ts';
import { readUntilEnd } from './read-until-end.ts';
import { EvidenceSocketError } from './errors.ts';
import { encodeResponse, MAX_REQUEST_BYTES, parseRequest } from './messages.ts';

/**
 * The join service needs one connection for each of its 128 pending sessions, and a few for sessions that are ending.
 */
const MAX_CONNECTIONS = 160;
const REQUEST_TIMEOUT_MS = 2_000;
/** Time limit for reading a request, waiting in the TPM queue and the quote: as long as an aTLS handshake may take. */
const TOTAL_TIMEOUT_MS = 20_000;

/** Path of the socket. Its directory decides who may connect: 0750, root and the join service's group. */
export const EVIDENCE_SOCKET = '/run/cluster/evidence/evidence.sock';

/** Configuration of the evidence socket. */
export interface EvidenceSocketOptions {
  readonly path: string;
  /** The aTLS context; the socket gives evidence only for servers of this context. */
  readonly context: string;
  /** Creators of the evidence that this machine can show. A request names one by its variant. */
  readonly issuers: readonly [Issuer, ...Issuer[]];
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A listening evidence socket. */
export interface EvidenceSocketServer extends AsyncDisposable {
  readonly path: string;
}

/**
 * Listens until disposed. The directory must exist with the permissions that decide who may connect: the socket itself is
 * world-writable, so that it never has wrong permissions, not even for a moment.
 */
export async function createEvidenceSocketServer(
  options: EvidenceSocketOptions,
): Promise<EvidenceSocketServer> {
  const closing = new AbortController();
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on('error', () => undefined).once('close', () => open.delete(socket));
    void serve(socket, options, closing.signal);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await options.files.remove(options.path); // removes the socket of an agent that was killed
  server.listen({ path: options.path, readableAll: true, writableAll: true });
  await once(server, 'listening');
  return {
    path: options.path,
    [Symbol.asyncDispose]: async () => {
      closing.abort(new Error('the evidence socket is closing'));
      for (const socket of open) socket.destroy();
      await closed(server);
    },
  };
}

async function serve(socket: Socket, options: EvidenceSocketOptions, closing: AbortSignal): Promise<void> {
  const { clock, log } = options;
  using gone = childSignal(closing);
  socket.once('close', () => gone.abort(new Error('the requesting process closed the connection')));
  try {
    const limit = {
      what: 'responding at the evidence socket',
      ms: TOTAL_TIMEOUT_MS,
      clock,
      signal: gone.signal,
    };
    const evidence = await withTimeout(limit, (signal) => evidenceFor(socket, options, signal));
    socket.end(encodeResponse('given', evidence));
  } catch (error) {
    log.warn('refusing evidence to a process of this machine', { context: options.context, error });
    const isRefusal = error instanceof EvidenceSocketError && error.code !== 'evidence-socket-busy';
    if (!socket.destroyed) socket.end(encodeResponse(isRefusal ? 'refused' : 'busy'), () => socket.destroy());
  }
}

async function evidenceFor(
  socket: Socket,
  { context, issuers, clock }: EvidenceSocketOptions,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const limit = { what: 'waiting for a request', ms: REQUEST_TIMEOUT_MS, clock, signal };
  const { format, statement } = parseRequest(
    await withTimeout(limit, (waiting) => readUntilEnd(socket, MAX_REQUEST_BYTES, waiting)),
  );
  if (!isStatementOf(statement, 'server', context)) {
    throw new EvidenceSocketError(
      'evidence-socket-refused',
      `checking a request: its session does not belong to the ${context} server`,
    );
  }
  const issuer = issuers.find(({ variant }) => FORMAT_OF_VARIANT[variant] === format);
  if (issuer === undefined) {
    throw new EvidenceSocketError(
      'evidence-socket-refused',
      `checking a request: this machine has no evidence of format ${format}`,
    );
  }
  const evidence = await issuer.issue(bindingOfStatement(statement), signal);
  if (evidence.length <= MAX_EVIDENCE_BYTES) return evidence;
  throw new EvidenceSocketError(
    'evidence-socket-busy',
    `creating evidence: ${evidence.length} bytes, at most ${MAX_EVIDENCE_BYTES} allowed`,
  );
}

async function closed(server: Server): Promise<void> {
  if (!server.listening) return;
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
