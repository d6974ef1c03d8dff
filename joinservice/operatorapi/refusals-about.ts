import { headFrom } from '../../internal/auditlog/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  auditHeadKey,
  auditKey,
  records,
  type AuditLogName,
  type AuditRecord,
  type TraceFactRecord,
} from '../../internal/records/index.ts';

/** How many of the newest entries of each log are searched, since unauthenticated machines can make the audit log long. */
const MAX_SEARCHED = 2_000;
const MAX_KINDS = 8;
/** For each audited method, the name of the fact that the trace shows. */
const NAMES: Readonly<Record<string, string>> = { Attest: 'evidence', RequestAdmission: 'request' };

/**
 * The newest refusals of a machine in the audit log, one fact for each kind, oldest first. Both logs are searched,
 * because earlier releases wrote refusals to the log of decisions. These refusals explain machines that have no
 * stored request, because their evidence was refused or their request was removed.
 */
export async function refusalsAbout(
  etcd: KeySpace,
  isAbout: (subject: string) => boolean,
  signal: AbortSignal,
): Promise<readonly TraceFactRecord[]> {
  const found = new Map<string, FoundRefusal>();
  for (const log of ['requests', 'decisions'] as const)
    await collectRefusals(found, etcd, { log, isAbout }, signal);
  return [...found.values()].map(factFrom).toReversed();
}

interface FoundRefusal {
  readonly newest: AuditRecord;
  times: number;
}

/** Adds the refusals of one log, newest first. */
async function collectRefusals(
  found: Map<string, FoundRefusal>,
  etcd: KeySpace,
  { log, isAbout }: { readonly log: AuditLogName; readonly isAbout: (subject: string) => boolean },
  signal: AbortSignal,
): Promise<void> {
  const { seq: last, firstSeq } = headFrom(await etcd.get(auditHeadKey(log), { signal }));
  const oldest = Math.max(firstSeq, last - MAX_SEARCHED + 1);
  // Entry numbers in etcd keys are zero-padded, so each hundred of them shares a key prefix.
  for (let hundred = Math.floor(last / 100); hundred >= Math.floor(oldest / 100); hundred--) {
    const { entries } = await etcd.list(auditKey(hundred * 100, log).slice(0, -2), { signal });
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
}

function factFrom({ newest, times }: FoundRefusal) {
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
