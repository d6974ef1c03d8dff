import type { AuditFacts } from '../../internal/audit/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { put, unchanged, type Entry, type KeySpace, type Transaction } from '../../internal/etcd/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';

/** Writes the next state of a rotation. Resolves to false if another node has changed it meanwhile. */
export async function writeRotation(
  etcd: KeySpace,
  entry: Pick<Entry, 'key' | 'modRevision'>,
  record: KeysRecord,
  signal: AbortSignal,
): Promise<boolean> {
  const result = await etcd.commit(transactionOf(entry, record), { signal });
  return result.kind === 'committed';
}

/** An audited decision of a control plane: a rotation has ended, or was restarted. */
export type Decision = Pick<AuditFacts, 'method' | 'detail'> & {
  readonly nodeId: string;
  readonly nowMs: number;
};

/** Like `writeRotation`, together with an audit entry: both are written, or neither. */
export async function writeRotationAudited(
  etcd: KeySpace,
  { entry, record }: { readonly entry: Entry; readonly record: KeysRecord },
  { nodeId, nowMs, method, detail }: Decision,
  signal: AbortSignal,
): Promise<boolean> {
  const facts = { timeMs: nowMs, caller: `node:${nodeId}`, method, subject: 'keys', detail };
  const result = await new AuditLog({ etcd }).commit({ ...transactionOf(entry, record), facts }, signal);
  return result.kind === 'committed';
}

function transactionOf(
  entry: Pick<Entry, 'key' | 'modRevision'>,
  record: KeysRecord,
): Pick<Transaction, 'when' | 'then'> {
  return { when: [unchanged(entry)], then: [put(KEYS_KEY, records.keys.encode(record))] };
}
