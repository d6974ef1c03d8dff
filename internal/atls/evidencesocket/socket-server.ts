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

/** A service asks for as many as it has sessions that prove themselves: 128, and a few that hang up. */
const MAX_CONNECTIONS = 160;
/** For the question itself. */
const QUESTION_MS = 2_000;
/** Question, queue before the TPM and quote: as long as an aTLS handshake may take. */
const WHOLE_MS = 20_000;

export interface EvidenceSocketOptions {
  readonly path: string;
  /** The one context for whose servers this socket makes evidence. */
  readonly context: string;
  /** What this machine can show; the asking end names one by its variant. */
  readonly issuers: readonly [Issuer, ...Issuer[]];
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface EvidenceSocketServer extends AsyncDisposable {
  readonly path: string;
}

/**
 * Listens until disposed. The directory must exist with the permissions that decide who may connect: the socket itself is
 * open to whoever reaches it, so that there is no moment in which it has the wrong ones.
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
  await options.files.remove(options.path); // of an agent that was killed
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
  socket.once('close', () => gone.abort(new Error('the asking process has gone')));
  try {
    const limit = { what: 'answering at the evidence socket', ms: WHOLE_MS, clock, signal: gone.signal };
    const evidence = await withTimeout(limit, (signal) => answer(socket, options, signal));
    socket.end(encodeResponse('given', evidence));
  } catch (error) {
    log.warn('no evidence was given to a process of this machine', { context: options.context, error });
    const isRefusal = error instanceof EvidenceSocketError && error.code !== 'evidence-socket-busy';
    if (!socket.destroyed) socket.end(encodeResponse(isRefusal ? 'refused' : 'busy'), () => socket.destroy());
  }
}

async function answer(
  socket: Socket,
  { context, issuers, clock }: EvidenceSocketOptions,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const limit = { what: 'waiting for a question', ms: QUESTION_MS, clock, signal };
  const { format, statement } = parseRequest(
    await withTimeout(limit, (waiting) => readUntilEnd(socket, MAX_REQUEST_BYTES, waiting)),
  );
  if (!isStatementOf(statement, 'server', context)) {
    throw new EvidenceSocketError('evidence-socket-refused', `judging a question: no server of ${context}`);
  }
  const issuer = issuers.find(({ variant }) => FORMAT_OF_VARIANT[variant] === format);
  if (issuer === undefined) {
    throw new EvidenceSocketError(
      'evidence-socket-refused',
      `judging a question: this machine has no format ${format}`,
    );
  }
  const evidence = await issuer.issue(bindingOfStatement(statement), signal);
  if (evidence.length <= MAX_EVIDENCE_BYTES) return evidence;
  throw new EvidenceSocketError('evidence-socket-busy', `making evidence: ${evidence.length} bytes`);
}

async function closed(server: Server): Promise<void> {
  if (!server.listening) return;
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
