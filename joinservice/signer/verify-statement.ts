import { CLOCK_TOLERANCE_MS, formatDuration } from '../../internal/clock/index.ts';
import {
  encodeTicketStatement,
  isSignedByEd25519Key,
  MAX_SPKI_BYTES,
  type TicketStatement,
  statementId,
} from '../../internal/crypto/index.ts';
import { MAX_ROLE_CHARS, MAX_ROLES } from '../../internal/role/index.ts';
import { SignerError } from './errors.ts';
import type { SeenStatement } from './signer-memory.ts';

/** How old a statement may be. A machine may wait for its slot and its TPM after it has signed the statement. */
export const STATEMENT_VALID_MS = 10 * 60_000;
const MAX_ADDRESS = 64;
const MAX_CSR_BYTES = 8192;

/** A statement of a machine. */
export interface Statement {
  readonly bytes: Uint8Array;
  /** Identifies the statement. */
  readonly id: string;
  readonly timeMs: number;
}

/**
 * Verifies that the machine itself made the request, and that it did so recently. Everything in `asked` is untrusted
 * before this check.
 * @throws SignerError `signer-request-invalid`, `signer-statement-outdated`
 */
export function verifyStatement(
  asked: TicketStatement,
  by: { readonly nodeId: string; readonly signature: Uint8Array; readonly nowMs: number },
): Statement {
  checkSizes(asked);
  const bytes = encode(asked);
  if (!isSignedByEd25519Key(asked.nodePubKeyDer, bytes, by.signature))
    throw invalid(`the statement is not signed by ${by.nodeId}`);
  const statement = { bytes, id: statementId(bytes), timeMs: asked.timeMs };
  checkAge(statement, { of: by.nodeId, nowMs: by.nowMs });
  return statement;
}

/** A statement is answered for ten minutes. @throws SignerError `signer-statement-outdated` */
export function checkAge(
  { timeMs }: Pick<Statement, 'timeMs'>,
  { of, nowMs }: { readonly of: string; readonly nowMs: number },
): void {
  const ageMs = nowMs - timeMs;
  if (ageMs <= STATEMENT_VALID_MS && ageMs >= -CLOCK_TOLERANCE_MS) return;
  throw new SignerError(
    'signer-statement-outdated',
    `statement of ${of} is ${Math.round(ageMs / 1000)} s old`,
  );
}

/**
 * Refuses a statement that is older than the newest one of its machine. The same statement again gets an equal answer, encrypted for the
 * same key.
 * @throws SignerError `signer-statement-replayed`
 */
export function refuseOlderStatement(
  { id, timeMs }: Pick<Statement, 'id' | 'timeMs'>,
  { of, newest }: { readonly of: string; readonly newest: SeenStatement | undefined },
): void {
  if (newest === undefined || timeMs > newest.timeMs || id === newest.id) return;
  throw new SignerError(
    'signer-statement-replayed',
    `statement of ${of} is ${formatDuration(newest.timeMs - timeMs)} older than its newest statement`,
  );
}

function checkSizes(asked: TicketStatement): void {
  const { address, roles, kubeletClientCsr, kubeletServingCsr, sealingPublicKey } = asked;
  const isSized =
    address.length <= MAX_ADDRESS &&
    roles.length <= MAX_ROLES &&
    roles.every((role) => role.length <= MAX_ROLE_CHARS) &&
    kubeletClientCsr.length <= MAX_CSR_BYTES &&
    kubeletServingCsr.length <= MAX_CSR_BYTES &&
    sealingPublicKey.length <= MAX_SPKI_BYTES;
  if (!isSized) throw invalid('a part of the statement is too long');
}

function encode(asked: TicketStatement): Uint8Array {
  try {
    return encodeTicketStatement(asked);
  } catch (cause) {
    throw invalid('malformed ticket statement', cause);
  }
}

function invalid(what: string, cause?: unknown): SignerError {
  return new SignerError('signer-request-invalid', `invalid request to sign: ${what}`, { cause });
}
