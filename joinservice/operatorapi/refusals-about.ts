import { headFrom } from '../../internal/auditlog/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  AUDIT_HEAD_KEY,
  auditKey,
  records,
  type AuditRecord,
  type TraceFactRecord,
} from '../../internal/records/index.ts';

/** How many of the newest entries are searched, since unauthenticated machines can make the audit log long. */
const MAX_SEARCHED = 2_000;
const MAX_KINDS = 8;
/** The names of facts by the method of their audit entry. */
const NAMES: Readonly<Record<string, string>> = { Attest: 'evidence', RequestAdmission: 'request' };

/**
 * The newest refusals of a machine in the audit log, one fact for each kind, oldest first. They explain machines without a stored
 * request, because their evidence was refused or their request was removed.
 */
export async function refusalsAbout(
  etcd: KeySpace,
  isAbout: (subject: string) => boolean,
  signal: AbortSignal,
): Promise<readonly TraceFactRecord[]> {
  const { seq: last, firstSeq } = headFrom(await etcd.get(AUDIT_HEAD_KEY, { signal }));
  const oldest = Math.max(firstSeq, last - MAX_SEARCHED + 1);
  const found = new Map<string, { newest: AuditRecord; times: number }>();
  // Numbers are padded, so a hundred of them share a prefix.
  for (let hundred = Math.floor(last / 100); hundred >= Math.floor(oldest / 100); hundred--) {
    const { entries } = await etcd.list(auditKey(hundred * 100).slice(0, -2), { signal });
    for (const { key, value } of entries.toReversed()) {
      const entry = records.audit.decode(key, value);
      if (entry.detail['verdict'] !== 'refused' || !isAbout(entry.subject)) continue;
      const kind = `${entry.method} ${textOf(entry.detail['code'])}`;
      const known = found.get(kind);
      const { repeated } = entry.detail;
      const times = typeof repeated === 'number' ? repeated + 1 : 1;
      if (known !== undefined) known.times += times;
      else if (found.size < MAX_KINDS) found.set(kind, { newest: entry, times });
    }
  }
  return [...found.values()].map(factFrom).toReversed();
}

function factFrom({ newest, times }: { readonly newest: AuditRecord; readonly times: number }) {
  const { method, detail, timeMs } = newest;
  const actual = textOf(detail['actual'] ?? detail['reason']);
  return {
    side: 'cluster',
    name: NAMES[method] ?? 'ticket',
    outcome: 'fail',
    expected: textOf(detail['expected']),
    actual: times === 1 ? actual : `${actual} (${times} times)`.trim(),
    fix: '',
    code: textOf(detail['code']),
    timeMs,
  } satisfies TraceFactRecord;
}

function textOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
