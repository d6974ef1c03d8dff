import { CLOCK_TOLERANCE_MS } from '../../internal/clock/index.ts';
import {
  encodeTicketStatement,
  isSignedByEd25519Key,
  MAX_SPKI_BYTES,
  type TicketStatement,
  ticketStatementId,
} from '../../internal/crypto/index.ts';
import { MAX_ROLE_CHARS, MAX_ROLES } from '../../internal/role/index.ts';
import { SignerError } from './errors.ts';

/** How old a statement may be. A machine may wait for its slot and its TPM after it has signed the statement. */
export const STATEMENT_VALID_MS = 10 * 60_000;
const MAX_ADDRESS = 64;
const MAX_CSR_BYTES = 8192;

/** A recent statement, signed with the key of the machine. */
export interface SignedStatement {
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
): SignedStatement {
  checkSizes(asked);
  const bytes = encode(asked);
  if (!isSignedByEd25519Key(asked.nodePubKeyDer, bytes, by.signature))
    throw invalid(`the statement is not signed by ${by.nodeId}`);
  const ageMs = by.nowMs - asked.timeMs;
  if (ageMs > STATEMENT_VALID_MS || ageMs < -CLOCK_TOLERANCE_MS)
    throw new SignerError(
      'signer-statement-outdated',
      `statement of ${by.nodeId} is ${Math.round(ageMs / 1000)} s old`,
    );
  return { bytes, id: ticketStatementId(bytes), timeMs: asked.timeMs };
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
