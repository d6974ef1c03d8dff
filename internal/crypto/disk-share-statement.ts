import { hash } from 'node:crypto';
import { checkSession } from './join-statements.ts';
import { labeledStatement, u64 } from './length-prefix.ts';

const LABEL = 'cluster/state-disk/share/v1\0';
const EVIDENCE_LABEL = 'cluster disk share evidence v1\0';
const ANSWER_LABEL = 'cluster/state-disk/share-answer/v1\0';

/** The statement with which a machine asks for the cluster share of its state disk. No key signs it: evidence is bound to it. */
export interface DiskShareStatement {
  readonly clusterId: string;
  /** UUID of the disk. */
  readonly uuid: string;
  /** `encodeEnrolmentRequest()`: the endorsement key, and the attestation key that signs the evidence. */
  readonly enrolment: Uint8Array;
  /** The 64-byte value of the attested TLS session that carries the request. */
  readonly session: Uint8Array;
  /** Wall clock of the machine, corrected by the clock of the cluster, milliseconds since the Unix epoch. */
  readonly timeMs: number;
}

/** The share, encrypted for one TPM (`TpmEnvelope`), as bytes. */
export interface DiskShareEnvelope {
  readonly challenge: Uint8Array;
  readonly nonce: Uint8Array;
  readonly ciphertext: Uint8Array;
}

/** Encodes a statement (`labeledStatement()`). The signer, which has no connection to the machine, judges these bytes. */
export function encodeDiskShareStatement(statement: DiskShareStatement): Uint8Array {
  const { clusterId, uuid, enrolment, session, timeMs } = statement;
  checkSession(session);
  if (!Number.isSafeInteger(timeMs) || timeMs < 0) throw new RangeError(`invalid time ${timeMs}`);
  return labeledStatement(LABEL, clusterId, uuid, enrolment, session, u64(BigInt(timeMs)));
}

/** The 64 bytes to which the evidence for a statement is bound. The label differs from those of sessions and tickets. */
export function diskShareEvidenceBinding(statement: Uint8Array): Uint8Array {
  return hash('sha512', Buffer.concat([Buffer.from(EVIDENCE_LABEL, 'ascii'), statement]), 'buffer');
}

/**
 * What the cluster CA signs for an answer. Anybody can encrypt for a TPM, so that without this signature a join service could choose
 * the share. The label cannot begin a certificate, which the CA signs with the same key.
 */
export function diskShareAnswer(statement: Uint8Array, envelope: DiskShareEnvelope): Uint8Array {
  const { challenge, nonce, ciphertext } = envelope;
  return labeledStatement(ANSWER_LABEL, statement, challenge, nonce, ciphertext);
}
