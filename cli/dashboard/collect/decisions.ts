import { ChainVerifier, type ChainHead } from '../../../internal/audit/index.ts';
import { auditKey, records, type AuditRecord } from '../../../internal/records/index.ts';
import type { CuratorClients } from '../../cluster/index.ts';

/** How many of the newest decisions are kept. */
const SHOWN = 100;
/** After every entry, so that the answer is the head alone. */
const PAST_THE_END = 2n ** 62n;

/**
 * The newest entries of the audit log. Each entry must follow the one before, as the hash chain says. They are not compared with
 * the checkpoints of the workspace, as `cluster audit verify` does, because that reads the whole log.
 */
export class RecentDecisions {
  #entries: readonly AuditRecord[] = [];
  #verifier: ChainVerifier | undefined;

  /** Reads what is new. @throws AuditError `audit-chain-broken`; the next call then reads everything again */
  async read({ operatorApi }: CuratorClients): Promise<readonly AuditRecord[]> {
    const from = this.#verifier?.head.seq ?? (await this.#firstSeq(operatorApi));
    const added: AuditRecord[] = [];
    try {
      let claimed: ChainHead | undefined;
      for await (const { message } of operatorApi.listAudit({ afterSeq: BigInt(from) })) {
        if (message.case === 'entry')
          added.push(this.#verify(Number(message.value.seq), message.value.record));
        else if (message.case === 'head')
          claimed = { seq: Number(message.value.seq), hash: message.value.hash };
      }
      if (claimed !== undefined && this.#verifier !== undefined) this.#verifier.verifyHead(claimed);
    } catch (error) {
      this.#verifier = undefined;
      throw error;
    }
    if (added.length > 0) this.#entries = [...this.#entries, ...added].slice(-SHOWN);
    return this.#entries;
  }

  async #firstSeq(operatorApi: CuratorClients['operatorApi']): Promise<number> {
    this.#entries = [];
    let last = 0;
    for await (const { message } of operatorApi.listAudit({ afterSeq: PAST_THE_END }))
      if (message.case === 'head') last = Number(message.value.seq);
    return Math.max(0, last - SHOWN);
  }

  #verify(seq: number, record: Uint8Array): AuditRecord {
    // The chain before the first entry is not read: its hash is the one that the entry names.
    this.#verifier ??= new ChainVerifier({
      seq: seq - 1,
      hash: records.audit.decode(auditKey(seq, 'decisions'), record).previous,
    });
    return this.#verifier.next(record);
  }
}
