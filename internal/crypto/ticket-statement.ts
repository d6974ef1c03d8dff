import { hash } from 'node:crypto';
import { checkSession } from './join-statements.ts';
import { labeledStatement, u32, u64 } from './length-prefix.ts';

const LABEL = 'cluster/join/ticket/v2\0';
const EVIDENCE_LABEL = 'cluster ticket evidence v1\0';

/** The statement that the agent of a machine signs to request the machine's certificates and keys. */
export interface TicketStatement {
  readonly clusterId: string;
  /** SubjectPublicKeyInfo, DER, of the machine's own key, which signs the statement. */
  readonly nodePubKeyDer: Uint8Array;
  /** The host at which other nodes reach the machine, without port. */
  readonly address: string;
  /** The roles that the agent requests credentials for. It gets no credentials for other roles. */
  readonly roles: readonly string[];
  /** PKCS#10, DER. */
  readonly kubeletClientCsr: Uint8Array;
  readonly kubeletServingCsr: Uint8Array;
  /** P-256 SubjectPublicKeyInfo, DER. The keys of the control plane are encrypted for it (`seal()`). */
  readonly sealingPublicKey: Uint8Array;
  /** The 64-byte value of the attested TLS session that carries the request. */
  readonly session: Uint8Array;
  /** Wall clock of the machine, milliseconds since the Unix epoch. */
  readonly timeMs: number;
}

/**
 * Encodes a statement for signing: the label, then each field with its length before it (`labeledStatement()`); the
 * number of roles precedes the roles, and the time is a u64. The signer, which has no connection to the machine,
 * verifies the machine's signature and the evidence over these bytes. The join service compares session and address
 * with those of its connection to the machine.
 */
export function encodeTicketStatement(statement: TicketStatement): Uint8Array {
  const { roles, session, timeMs } = statement;
  checkSession(session);
  if (!Number.isSafeInteger(timeMs) || timeMs < 0) throw new RangeError(`invalid time ${timeMs}`);
  return labeledStatement(
    LABEL,
    statement.clusterId,
    statement.nodePubKeyDer,
    statement.address,
    u32(roles.length),
    ...roles,
    statement.kubeletClientCsr,
    statement.kubeletServingCsr,
    statement.sealingPublicKey,
    session,
    u64(BigInt(timeMs)),
  );
}

/**
 * The 64 bytes to which the attestation evidence for a statement is bound. They begin as a hash over a label of their
 * own, so they never equal the 64 bytes that bind evidence to a TLS session.
 */
export function ticketEvidenceBinding(statement: Uint8Array): Uint8Array {
  return hash('sha512', Buffer.concat([Buffer.from(EVIDENCE_LABEL, 'ascii'), statement]), 'buffer');
}

/** The id of a statement: SHA-256 of its bytes, lower-case hex. */
export function statementId(statement: Uint8Array): string {
  return hash('sha256', statement);
}
