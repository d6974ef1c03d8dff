import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  AUDIT_HEAD_KEY,
  AUDIT_PREFIX,
  auditKey,
  type AuditHeadRecord,
} from '../../internal/records/index.ts';
import type { Call, Handlers } from '../../internal/rpc/index.ts';
import { headFrom } from '../audit/index.ts';
import { readCluster, type Caller } from '../curator/index.ts';
import type { Admission, ListAuditRequest } from '../curatorproto/gen/admission_pb.js';

/** Entries read at once. */
const PAGE = 256;
const FOLLOW_MS = 1_000;

export interface AuditAdminParts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
}

type AuditHandler = Handlers<typeof Admission, Caller>['listAudit'];
type Answer = ReturnType<AuditHandler> extends AsyncIterable<infer T> ? T : never;

/** The chain as it is kept: exact bytes, so that whoever reads it can verify it without believing this curator. */
export function auditHandlers(parts: AuditAdminParts): { readonly listAudit: AuditHandler } {
  return { listAudit: (request, call) => listAudit(parts, request, call) };
}

async function* listAudit(
  { etcd, clock }: AuditAdminParts,
  request: ListAuditRequest,
  { signal }: Call<Caller>,
): AsyncGenerator<Answer> {
  const { clusterId, epoch } = await readCluster(etcd, signal);
  let head = await readHead(etcd, signal);
  let seq = Math.max(Number(request.afterSeq), head.firstSeq - 1);
  let left = request.limit === 0 ? Infinity : request.limit;
  for (;;) {
    while (seq < head.seq && left > 0) {
      const last = Math.min(head.seq, seq + PAGE, seq + left);
      for (const record of await readEntries(etcd, { after: seq, last }, signal)) {
        seq++;
        left--;
        yield { message: { case: 'entry', value: { seq: BigInt(seq), record } } };
      }
    }
    yield {
      message: {
        case: 'head',
        value: {
          clusterId,
          epoch: BigInt(epoch),
          seq: BigInt(head.seq),
          hash: head.hash,
          firstSeq: BigInt(head.firstSeq),
        },
      },
    };
    if (!request.follow || left <= 0) return;
    const before = head.seq;
    while (head.seq === before) {
      await clock.sleep(FOLLOW_MS, signal);
      head = await readHead(etcd, signal);
    }
  }
}

async function readHead(etcd: KeySpace, signal: AbortSignal): Promise<AuditHeadRecord> {
  return headFrom(await etcd.get(AUDIT_HEAD_KEY, { signal }));
}

/** A page of entries. Keys sort as their numbers do; entries that went meanwhile are told as a gap by their absence. */
async function readEntries(
  etcd: KeySpace,
  { after, last }: { readonly after: number; readonly last: number },
  signal: AbortSignal,
): Promise<readonly Uint8Array[]> {
  const wanted = Array.from({ length: last - after }, (_, i) => auditKey(after + 1 + i));
  const isWhole = after === 0;
  if (isWhole && wanted.length > PAGE / 2) {
    const { entries } = await etcd.list(AUDIT_PREFIX, { signal });
    const values = new Map(entries.map(({ key, value }) => [key, value]));
    return wanted.flatMap((key) => values.get(key) ?? []);
  }
  const found = await Promise.all(wanted.map((key) => etcd.get(key, { signal })));
  return found.flatMap((entry) => (entry === undefined ? [] : [entry.value]));
}
