import type { MessageInitShape } from '@bufbuild/protobuf';
import { headFrom } from '../../internal/auditlog/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  auditHeadKey,
  auditKey,
  type AuditHeadRecord,
  type AuditLogName,
} from '../../internal/records/index.ts';
import type { Call } from '../../internal/rpc/index.ts';
import { readCluster, type Caller } from '../curator/index.ts';
import type { ListAuditRequest, ListAuditResponseSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { OperatorApiError } from './errors.ts';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/** Digits of an entry number in the etcd key of the entry. */
const AUDIT_DIGITS = 16;
const FOLLOW_MS = 1_000;

type AuditParts = Pick<OperatorApiParts, 'etcd' | 'clock'>;
type Answer = MessageInitShape<typeof ListAuditResponseSchema>;

/** Sends one audit log as its exact bytes, so that the reader can verify the chain without trusting this curator. */
export function auditHandlers(parts: AuditParts): HandlersOf<'listAudit'> {
  return { listAudit: (request, call) => listAudit(parts, request, call) };
}

async function* listAudit(
  { etcd, clock }: AuditParts,
  request: ListAuditRequest,
  { signal }: Call<Caller>,
): AsyncGenerator<Answer> {
  const { clusterId, epoch } = await readCluster(etcd, signal);
  const log = request.requests ? 'requests' : 'decisions';
  let head = await readHead(etcd, log, signal);
  let seq = Math.max(Number(request.afterSeq), head.firstSeq - 1);
  const limit = request.limit === 0 ? Infinity : request.limit;
  let sent = 0;
  for (;;) {
    while (seq < head.seq && sent < limit) {
      const block = await readBlock(etcd, { log, after: seq, last: head.seq }, signal);
      if (block.entries[0]?.seq !== seq + 1) {
        const now = await readHead(etcd, log, signal);
        if (now.firstSeq > seq + 1) {
          if (sent > 0) throw dropped(seq + 1, now);
          [head, seq] = [now, now.firstSeq - 1];
          continue;
        }
      }
      for (const entry of block.entries.slice(0, limit - sent)) {
        sent++;
        yield { message: { case: 'entry', value: { seq: BigInt(entry.seq), record: entry.record } } };
      }
      seq = block.end;
    }
    yield headMessage(head, { clusterId, epoch, log });
    if (!request.follow || sent >= limit) return;
    const before = head.seq;
    while (head.seq === before) {
      await clock.sleep(FOLLOW_MS, signal);
      head = await readHead(etcd, log, signal);
    }
  }
}

function headMessage(
  { seq, hash, firstSeq }: AuditHeadRecord,
  of: { readonly clusterId: string; readonly epoch: number; readonly log: AuditLogName },
): Answer {
  const { clusterId, epoch, log } = of;
  const numbers = { epoch: BigInt(epoch), seq: BigInt(seq), firstSeq: BigInt(firstSeq) };
  const value = { clusterId, ...numbers, hash, requests: log === 'requests' };
  return { message: { case: 'head', value } };
}

async function readHead(etcd: KeySpace, log: AuditLogName, signal: AbortSignal): Promise<AuditHeadRecord> {
  return headFrom(await etcd.get(auditHeadKey(log), { signal }));
}

/**
 * The error for entries that were dropped while a caller was reading. Without this error the caller would see a gap
 * that looks like tampering.
 */
function dropped(seq: number, { firstSeq }: AuditHeadRecord): OperatorApiError {
  return new OperatorApiError(
    'operatorapi-audit-truncated',
    `reading the audit log from entry ${seq}: the oldest entry is now ${firstSeq}`,
  );
}

interface Block {
  readonly entries: readonly { readonly seq: number; readonly record: Uint8Array }[];
  /** The last entry number of this block of one hundred. */
  readonly end: number;
}

/**
 * The entries after a number, up to the end of its block of one hundred, from one list call. Entry numbers
 * are zero-padded, so a block of one hundred entries shares a key prefix. Missing entries are left out.
 */
async function readBlock(
  etcd: KeySpace,
  { log, after, last }: { readonly log: AuditLogName; readonly after: number; readonly last: number },
  signal: AbortSignal,
): Promise<Block> {
  const first = after + 1;
  const prefix = auditKey(first, log).slice(0, -2);
  const { entries } = await etcd.list(prefix, { signal });
  const found = entries.map(({ key, value }) => ({ seq: Number(key.slice(-AUDIT_DIGITS)), record: value }));
  return {
    entries: found.filter(({ seq }) => seq > after && seq <= last),
    end: Math.min(last, first - (first % 100) + 99),
  };
}
