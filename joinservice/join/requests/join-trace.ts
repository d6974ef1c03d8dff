import type { KeySpace, Write } from '../../../internal/etcd/index.ts';
import { records, type TraceFactRecord, type TraceRecord } from '../../../internal/records/index.ts';

const MAX_FACTS = 48;
const MAX_TEXT = 256;

/**
 * Merges facts, oldest first: of facts with the same name from the same side (machine or cluster), only the newest is
 * kept. Beyond the limit the oldest facts are dropped.
 */
export function mergeFacts(
  before: readonly TraceFactRecord[],
  now: readonly TraceFactRecord[],
): readonly TraceFactRecord[] {
  const merged = new Map<string, TraceFactRecord>();
  for (const fact of [...before, ...now]) {
    const key = `${fact.side}/${fact.name}`;
    merged.delete(key);
    merged.set(key, bounded(fact));
  }
  return [...merged.values()].slice(-MAX_FACTS);
}

/** The stored trace of a machine; empty if there is none. */
export async function readTrace(etcd: KeySpace, nodeId: string, signal: AbortSignal): Promise<TraceRecord> {
  const { record } = await records.trace.read(etcd, records.trace.key(nodeId), signal);
  return record ?? { version: 1, nodeId, facts: [] };
}

/** Stores the trace of a machine. */
export function traceWrite(nodeId: string, facts: readonly TraceFactRecord[]): Write {
  return records.trace.put(records.trace.key(nodeId), { version: 1, nodeId, facts: [...facts] });
}

function bounded(fact: TraceFactRecord): TraceFactRecord {
  const cut = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text);
  return { ...fact, expected: cut(fact.expected), actual: cut(fact.actual), fix: cut(fact.fix) };
}
