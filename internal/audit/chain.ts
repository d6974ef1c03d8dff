import { createHash } from 'node:crypto';
import { auditKey, records, type AuditRecord } from '../records/index.ts';
import { AuditError } from './errors.ts';

/** Where a chain ends: how many entries there have been, and the hash of the last. */
export interface ChainHead {
  readonly seq: number;
  /** SHA-256, lower-case hex. */
  readonly hash: string;
}

/** Before the first entry. */
export const EMPTY_CHAIN: ChainHead = { seq: 0, hash: '0'.repeat(64) };

/** What is decided about an entry by whoever writes it; its place in the chain is not. */
export type AuditFacts = Pick<AuditRecord, 'timeMs' | 'caller' | 'method' | 'subject' | 'detail'>;

const LABEL = 'cluster/audit/v1\0';

/** The hash of an entry: over the exact bytes that are kept. The hash of the one before is among them. */
export function hashOfEntry(record: Uint8Array): string {
  return createHash('sha256').update(LABEL, 'utf8').update(record).digest('hex');
}

/** The next entry of a chain, and where the chain ends with it. */
export function extendChain(
  head: ChainHead,
  facts: AuditFacts,
): { readonly record: Uint8Array; readonly head: ChainHead } {
  const seq = head.seq + 1;
  const record = records.audit.encode({ version: 2, seq, previous: head.hash, ...facts });
  return { record, head: { seq, hash: hashOfEntry(record) } };
}

/**
 * Follows a chain entry by entry from a place that is trusted: its beginning, or a checkpoint. Pure; needs no cluster.
 * @returns each entry, read, as it proves to be the next one
 * @throws AuditError `audit-chain-broken` at the first entry that does not fit
 */
export class ChainVerifier {
  #head: ChainHead;

  constructor(from: ChainHead = EMPTY_CHAIN) {
    this.#head = from;
  }

  /** Where the chain is good up to. */
  get head(): ChainHead {
    return this.#head;
  }

  next(record: Uint8Array): AuditRecord {
    const { seq, hash } = this.#head;
    const entry = records.audit.decode(auditKey(seq + 1), record);
    if (entry.seq !== seq + 1) throw broken(seq + 1, `entry ${entry.seq} stands in its place`);
    if (entry.previous !== hash) throw broken(seq + 1, `it does not follow entry ${seq}`);
    this.#head = { seq: seq + 1, hash: hashOfEntry(record) };
    return entry;
  }

  /** The head that the cluster names must be the one that its entries lead to. */
  verifyHead(claimed: ChainHead): void {
    const { seq, hash } = this.#head;
    if (claimed.seq !== seq)
      throw broken(seq + 1, `the cluster counts ${claimed.seq} entries and shows ${seq}`);
    if (claimed.hash !== hash) throw broken(seq, 'it is not the one that the cluster names as its last');
  }
}

function broken(seq: number, why: string): AuditError {
  return new AuditError('audit-chain-broken', `verifying entry ${seq} of the audit: ${why}`, {
    details: { seq },
  });
}
