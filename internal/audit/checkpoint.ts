import { z } from 'zod';
import { isSignedByRawEd25519Key, labeledStatement, signEd25519 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import type { AuditLogName } from '../records/index.ts';
import type { ChainHead } from './chain.ts';
import { AuditError } from './errors.ts';

const MAX_BYTES = 4096;
/**
 * The beginning of the data that an owner signs, one for each audit log. So a signature for one log is never valid for
 * another log.
 */
const LABELS: Readonly<Record<AuditLogName, string>> = {
  decisions: 'cluster/audit-checkpoint/v1\0',
  requests: 'cluster/audit-requests-checkpoint/v1\0',
};

/**
 * The head of the chain at some time, signed by an owner and kept in the workspace. An attacker who can
 * rewrite the log in the cluster cannot change the checkpoint: the entries up to `seq` must still have the
 * hash `hash`. Format: docs/audit.md.
 */
const shape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string().min(1),
  epoch: z.int().positive(),
  seq: z.int().nonnegative(),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  timeMs: z.int(),
  /** Raw Ed25519 public key, and its signature over `statementOf`; base64. */
  ownerPubKey: z.base64(),
  signature: z.base64(),
});

/** A checkpoint as it is stored. */
export type Checkpoint = Readonly<z.infer<typeof shape>>;

/** The data that a checkpoint signs. */
export interface CheckpointSubject extends ChainHead {
  readonly clusterId: string;
  readonly epoch: number;
  readonly timeMs: number;
  /** The audit log; default: the log of decisions. */
  readonly log?: AuditLogName;
}

/** Signs a head. `ownerKeyPem` is an Ed25519 key, `ownerPubKey` its raw public half. */
export function signCheckpoint(
  subject: CheckpointSubject,
  owner: { readonly keyPem: Secret<string>; readonly pubKey: Uint8Array },
): Checkpoint {
  const { clusterId, epoch, seq, hash, timeMs } = subject;
  const signature = signEd25519(owner.keyPem, statementOf(subject));
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  return {
    version: 1,
    clusterId,
    epoch,
    seq,
    hash,
    timeMs,
    ownerPubKey: base64(owner.pubKey),
    signature: base64(signature),
  };
}

/**
 * Reads a checkpoint and verifies that one of these owners signed it, for this cluster.
 * @throws AuditError `audit-checkpoint-invalid`
 */
export function parseCheckpoint(
  bytes: Uint8Array,
  expected: {
    readonly clusterId: string;
    readonly ownerPubKeys: readonly Uint8Array[];
    /** The audit log; default: the log of decisions. */
    readonly log?: AuditLogName;
  },
): Checkpoint {
  const { log = 'decisions' } = expected;
  const checkpoint = read(bytes);
  if (checkpoint.clusterId !== expected.clusterId)
    throw invalid(`the checkpoint belongs to cluster ${checkpoint.clusterId}`);
  const pubKey = Buffer.from(checkpoint.ownerPubKey, 'base64');
  if (!expected.ownerPubKeys.some((each) => pubKey.equals(each)))
    throw invalid('no owner of this cluster signed it');
  const signature = Buffer.from(checkpoint.signature, 'base64');
  if (!isSignedByRawEd25519Key(pubKey, statementOf({ ...checkpoint, log }), signature))
    throw invalid('the signature is wrong');
  return checkpoint;
}

function read(bytes: Uint8Array): Checkpoint {
  if (bytes.length > MAX_BYTES) throw invalid(`${bytes.length} bytes, at most ${MAX_BYTES} allowed`);
  try {
    return shape.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
  } catch (error) {
    throw invalid('the checkpoint is damaged', error);
  }
}

/** Numbers are signed in decimal. */
function statementOf(subject: CheckpointSubject): Uint8Array {
  const { clusterId, epoch, seq, hash, timeMs, log = 'decisions' } = subject;
  return labeledStatement(LABELS[log], clusterId, String(epoch), String(seq), hash, String(timeMs));
}

function invalid(why: string, cause?: unknown): AuditError {
  return new AuditError('audit-checkpoint-invalid', `reading a checkpoint of the audit log: ${why}`, {
    cause,
  });
}
