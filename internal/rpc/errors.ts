import { Metadata, status, type ServiceError } from '@grpc/grpc-js';
import {
  CodedError,
  defineErrors,
  describeError,
  errorClass,
  EXIT_CODES,
  type ExitName,
  type Fault,
  fault,
  findCoded,
  retryable,
} from '../errors/index.ts';
import { printableLines } from '../printable/index.ts';

export const rpcErrors = defineErrors({
  'rpc-unreachable': retryable.peer.unreachable(
    'The peer could not be reached, or the connection broke.',
    'Check the address and port, that the service runs there, and that no firewall blocks the connection.',
  ),
  'rpc-timeout': retryable.peer.unreachable(
    'The peer did not respond in time.',
    'Check whether the peer is overloaded or the network loses packets, then repeat the call.',
  ),
  'rpc-handshake': fault.peer.refused(
    'The TLS handshake failed: one end did not accept the certificate of the other.',
    'Compare the expected fingerprint or certificate with the fingerprint or certificate in the error message. Do not continue if they differ.',
  ),
  'rpc-not-served': fault.peer.precondition(
    'The peer does not implement this call; it probably runs another version.',
    'Compare the versions of both programs: they may differ by one minor version.',
  ),
  'rpc-crowded': retryable.system.unreachable(
    'The server refused the connection because too many connections are waiting, most of them from the same network as this connection.',
    'Wait: the client retries by itself. If the error lasts for minutes, find out on a control plane where the connections come from: `cluster node logs NODE --unit cluster-joinservice`.',
  ),
  'rpc-failed': retryable.peer.internal(
    'The peer failed with an internal error.',
    'Run the same command again. If that fails too, the log of the peer has the error: `cluster node logs NODE`, or `journalctl -u bootstrapper -u cluster-joinservice` on the machine itself.',
  ),
});

/** A call or connection that failed on this side or in the network. */
export class RpcError extends errorClass(rpcErrors) {}

/** An error that the peer sent with its code. The texts are the peer's; `errorFromStatus` made them printable. */
export class RemoteError extends CodedError {
  /** The code of the error that caused it at the peer, such as the code of a node that a curator has called. */
  readonly causeCode: string | undefined;

  constructor(wire: WireError) {
    const spec = {
      fault: wire.fault,
      exit: wire.exit,
      retryable: wire.retryable,
      meaning: wire.message,
      fix: wire.fix,
    };
    super({ [wire.code]: spec }, wire.code, wire.message);
    this.causeCode = wire.causeCode;
  }
}

/** An error that somebody reported as a code and a text, without its catalogue; undefined if that is no code. */
export function reportedError(code: string, message: string): RemoteError | undefined {
  if (!CODE.test(code)) return undefined;
  const spec = { fault: 'peer', exit: 'precondition', retryable: false, fix: '' } as const;
  return new RemoteError({ code, message: printableLines(message), ...spec });
}

interface WireError {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
  readonly fault: Fault;
  readonly exit: ExitName;
  readonly retryable: boolean;
  readonly causeCode?: string | undefined;
}

const CODE = /^[a-z][a-z0-9-]{0,63}$/;
const TRAILER = 'cluster-error-bin';
const MAX_TEXT = 2000;
const FAULTS: readonly string[] = ['operator', 'peer', 'system'] satisfies readonly Fault[];

/**
 * The part of an error that a peer may learn: `chain` all texts, for authenticated members and owners; `code`
 * only the code.
 */
export type Disclosure = 'chain' | 'code';

/** The gRPC status for an error. An error without a code becomes "internal error". */
export function statusFromError(
  error: unknown,
  disclosure: Disclosure,
): Pick<ServiceError, 'code' | 'details' | 'metadata'> {
  const metadata = new Metadata();
  const coded = findCoded(error);
  if (coded === undefined) return { code: status.INTERNAL, details: 'internal error', metadata };
  const message = (disclosure === 'chain' ? describeError(error) : coded.code).slice(0, MAX_TEXT);
  const { code, fault, exit, retryable } = coded;
  const wire: WireError = {
    code,
    message,
    fault,
    exit,
    retryable,
    fix: disclosure === 'chain' ? coded.fix : '',
    causeCode: disclosure === 'chain' ? findCoded(coded.cause)?.code : undefined, // JSON omits undefined members
  };
  metadata.set(TRAILER, Buffer.from(JSON.stringify(wire)));
  return { code: retryable ? status.ABORTED : status.FAILED_PRECONDITION, details: code, metadata };
}

/** The error for a gRPC status that a peer sent. `doing` is the context in front of the message. */
export function errorFromStatus(doing: string, error: ServiceError): CodedError {
  const wire = parseWireError(error.metadata?.get(TRAILER)[0]);
  if (wire !== undefined) return new RemoteError(wire);
  const cause = new Error(withoutFrame(error.details || error.message));
  switch (error.code) {
    case status.UNAVAILABLE:
      return new RpcError('rpc-unreachable', doing, { cause });
    case status.DEADLINE_EXCEEDED:
      return new RpcError('rpc-timeout', doing, { cause });
    case status.UNIMPLEMENTED:
      return new RpcError('rpc-not-served', doing, { cause });
    default:
      return new RpcError('rpc-failed', doing, { cause });
  }
}

/** grpc-js wraps the error of the socket: "No connection established. Last error: Error: connect ECONNREFUSED …". */
function withoutFrame(text: string): string {
  return text.replace(
    /^No connection established\. Last error: (?:Error: )?(.*?)\.? Resolution note:.*$/s,
    '$1',
  );
}

/** The error that an untrusted peer put into the trailer; undefined when its size or shape is wrong. */
function parseWireError(raw: unknown): WireError | undefined {
  if (!Buffer.isBuffer(raw) || raw.length > 8192) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(raw.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { code, message, fix, fault, exit, retryable, causeCode } = value as Record<string, unknown>;
  if (typeof code !== 'string' || !CODE.test(code)) return undefined;
  if (typeof message !== 'string' || typeof fix !== 'string' || typeof retryable !== 'boolean')
    return undefined;
  if (typeof fault !== 'string' || !FAULTS.includes(fault)) return undefined;
  if (typeof exit !== 'string' || !Object.hasOwn(EXIT_CODES, exit)) return undefined;
  return {
    code,
    message: printableLines(message),
    fix: printableLines(fix),
    fault: fault as Fault,
    exit: exit as ExitName,
    retryable,
    causeCode: typeof causeCode === 'string' && CODE.test(causeCode) ? causeCode : undefined,
  };
}
