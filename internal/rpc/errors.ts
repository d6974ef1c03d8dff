import { Metadata, status, type ServiceError } from '@grpc/grpc-js';
import {
  CodedError,
  defineErrors,
  describeError,
  errorClass,
  EXIT_CODES,
  type ExitName,
  type Fault,
  findCoded,
} from '../errors/index.ts';
import { printableLines } from '../printable/index.ts';

export const rpcErrors = defineErrors({
  'rpc-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The peer could not be reached, or the connection broke.',
    fix: 'Check the address and port, that the service runs there, and that nothing between filters it.',
  },
  'rpc-timeout': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The peer did not answer in time.',
    fix: 'See whether the peer is overloaded or the network loses packets; the call can be repeated.',
  },
  'rpc-handshake': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The peer did not prove who it is, or did not accept our proof.',
    fix: 'Compare the fingerprint or certificate you expect with the one in the message; do not go on if they differ.',
  },
  'rpc-not-served': {
    fault: 'peer',
    exit: 'precondition',
    retryable: false,
    meaning: 'The peer does not serve this call; its version is probably another one.',
    fix: 'Compare the versions of both programs; they may differ by one minor.',
  },
  'rpc-crowded': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'So many machines wait to be served here that this one was sent away; most of those who wait are from the same network as it.',
    fix: 'Nothing: it asks again by itself. If it stays so for minutes, look on the control planes where the many come from: `cluster node logs NODE --unit cluster-joinservice`.',
  },
  'rpc-failed': {
    fault: 'peer',
    exit: 'internal',
    retryable: true,
    meaning: 'The peer failed without saying why.',
    fix: 'Look into the log of the peer at the time of the call.',
  },
});

export type RpcErrorCode = keyof typeof rpcErrors;

export class RpcError extends errorClass(rpcErrors) {}

/** An error that the peer coded. Its text is the peer's word and was cut to a safe shape. */
export class RemoteError extends CodedError {
  constructor(wire: WireError) {
    const spec = {
      fault: wire.fault,
      exit: wire.exit,
      retryable: wire.retryable,
      meaning: wire.message,
      fix: wire.fix,
    };
    super({ [wire.code]: spec }, wire.code, wire.message);
  }
}

interface WireError {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
  readonly fault: Fault;
  readonly exit: ExitName;
  readonly retryable: boolean;
}

const TRAILER = 'cluster-error-bin';
const MAX_TEXT = 2000;
const FAULTS: readonly string[] = ['operator', 'peer', 'system'] satisfies readonly Fault[];

/** What of an error a peer may learn: `chain` for those who proved to be owners, `code` for strangers. */
export type Disclosure = 'chain' | 'code';

/** Our error → what goes over the wire. Errors without a code say only that something failed. */
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
  };
  metadata.set(TRAILER, Buffer.from(JSON.stringify(wire)));
  return { code: retryable ? status.ABORTED : status.FAILED_PRECONDITION, details: code, metadata };
}

/** What came over the wire → our error. */
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

/** grpc-js wraps what the socket said: "No connection established. Last error: Error: connect ECONNREFUSED …". */
function withoutFrame(text: string): string {
  return text.replace(
    /^No connection established\. Last error: (?:Error: )?(.*?)\.? Resolution note:.*$/s,
    '$1',
  );
}

/** The trailer is the peer's: size, then shape, then meaning; anything else counts as absent. */
function parseWireError(raw: unknown): WireError | undefined {
  if (!Buffer.isBuffer(raw) || raw.length > 8192) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(raw.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { code, message, fix, fault, exit, retryable } = value as Record<string, unknown>;
  if (typeof code !== 'string' || !/^[a-z][a-z0-9-]{0,63}$/.test(code)) return undefined;
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
  };
}
