import { createHash } from 'node:crypto';
import { auditKey, records, type AuditLogName, type AuditRecord } from '../records/index.ts';
import { AuditError } from './errors.ts';

/** The end of a chain: the number of entries and the hash of the last one. */
export interface ChainHead {
  readonly seq: number;
  /** SHA-256, lower-case hex. */
  readonly hash: string;
}

/** The head before the first entry. */
export const EMPTY_CHAIN: ChainHead = { seq: 0, hash: '0'.repeat(64) };

/** The content of an entry, without its position in the chain. */
export type AuditFacts = Pick<AuditRecord, 'timeMs' | 'caller' | 'method' | 'subject' | 'detail'>;

const LABEL = 'cluster/audit/v1\0';

/** The hash of the stored bytes of an entry, which contain the hash of the previous entry. */
export function hashOfEntry(record: Uint8Array): string {
  return createHash('sha256').update(LABEL, 'utf8').update(record).digest('hex');
}

/** The next entry of the chain of a log, and the head after it. */
export function extendChain(
  head: ChainHead,
  facts: AuditFacts,
  log: AuditLogName = 'decisions',
): { readonly record: Uint8Array; readonly head: ChainHead } {
  const seq = head.seq + 1;
  const named = log === 'requests' ? { log } : {};
  const record = records.audit.encode({ version: 2, ...named, seq, previous: head.hash, ...facts });
  return { record, head: { seq, hash: hashOfEntry(record) } };
}

/**
 * Verifies a chain entry by entry from a trusted head: the beginning, or a checkpoint. Pure; needs no cluster.
 * @throws AuditError `audit-chain-broken` at the first entry that does not follow the previous one
 */
export class ChainVerifier {
  #head: ChainHead;
  readonly #log: AuditLogName;

  constructor(from: ChainHead = EMPTY_CHAIN, log: AuditLogName = 'decisions') {
    this.#head = from;
    this.#log = log;
  }

  /** The head up to which the chain is verified. */
  get head(): ChainHead {
    return this.#head;
  }

  /** Verifies that a stored entry is the next one, and decodes it. */
  next(record: Uint8Array): AuditRecord {
    const { seq, hash } = this.#head;
    const entry = records.audit.decode(auditKey(seq + 1, this.#log), record);
    if ((entry.log ?? 'decisions') !== this.#log)
      throw broken(seq + 1, `the entry belongs to another log than ${this.#log}`);
    if (entry.seq !== seq + 1) throw broken(seq + 1, `found entry ${entry.seq} instead`);
    if (entry.previous !== hash) throw broken(seq + 1, `the entry does not follow entry ${seq}`);
    this.#head = { seq: seq + 1, hash: hashOfEntry(record) };
    return entry;
  }

  /** Verifies that the head that the cluster reports is the head of the verified entries. */
  verifyHead(claimed: ChainHead): void {
    const { seq, hash } = this.#head;
    if (claimed.seq !== seq)
      throw broken(seq + 1, `the cluster reports ${claimed.seq} entries and returned ${seq}`);
    if (claimed.hash !== hash)
      throw broken(
        seq,
        'the hash of the entry differs from the hash that the cluster reports for its last entry',
      );
  }
}

function broken(seq: number, why: string): AuditError {
  return new AuditError('audit-chain-broken', `verifying audit log entry ${seq}: ${why}`, {
    details: { seq },
  });
}
