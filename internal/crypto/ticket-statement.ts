import { hash } from 'node:crypto';

const SESSION_BYTES = 64;
const LABEL = 'cluster/join/ticket/v2\0';
const EVIDENCE_LABEL = 'cluster ticket evidence v1\0';

/** What a machine's agent asks certificates and keys with. */
export interface TicketStatement {
  readonly clusterId: string;
  /** SubjectPublicKeyInfo, DER, of the machine's own key, which signs the statement. */
  readonly nodePubKeyDer: Uint8Array;
  /** Where other nodes reach the machine; no port. */
  readonly address: string;
  /** The roles as the agent knows them: it gets nothing for a role that is not among them. */
  readonly roles: readonly string[];
  /** PKCS#10, DER. */
  readonly kubeletClientCsr: Uint8Array;
  readonly kubeletServingCsr: Uint8Array;
  /** P-256 SubjectPublicKeyInfo, DER: the recipient of the keys of the control plane. */
  readonly sealingPublicKey: Uint8Array;
  /** The 64 bytes of the session in which it is asked. */
  readonly session: Uint8Array;
  /** Wall clock of the machine. */
  readonly timeMs: number;
}

/**
 * The bytes of a statement: label, then each field with its length (u32 big endian) before it; before the roles their
 * count, and the time as u64. The signer, which sees no session, verifies the machine's signature over them and evidence
 * that is bound to them. The join service compares session and address with what it sees.
 */
export function encodeTicketStatement(statement: TicketStatement): Uint8Array {
  const { clusterId, nodePubKeyDer, address, roles, session, timeMs } = statement;
  if (session.length !== SESSION_BYTES) throw new RangeError(`a session has 64 bytes, not ${session.length}`);
  if (!Number.isSafeInteger(timeMs) || timeMs < 0) throw new RangeError(`a time of ${timeMs}`);
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(timeMs));
  const parts = [
    Buffer.from(clusterId, 'utf8'),
    nodePubKeyDer,
    Buffer.from(address, 'utf8'),
    u32(roles.length),
    ...roles.map((role) => Buffer.from(role, 'utf8')),
    statement.kubeletClientCsr,
    statement.kubeletServingCsr,
    statement.sealingPublicKey,
    session,
    time,
  ];
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), ...parts.flatMap((part) => [u32(part.length), part])]);
}

/** What evidence for a statement is bound to: 64 bytes that no session of attested TLS has (another label). */
export function ticketEvidenceBinding(statement: Uint8Array): Uint8Array {
  return hash('sha512', Buffer.concat([Buffer.from(EVIDENCE_LABEL, 'ascii'), statement]), 'buffer');
}

/** Names a statement: two with one name are the same. */
export function ticketStatementId(statement: Uint8Array): string {
  return hash('sha256', statement);
}

function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
