import type { ScheduleCertificate } from '../../../internal/backup/index.ts';
import { MINUTE_MS } from '../../../internal/clock/index.ts';
import type { BackupHeadRecord, BackupRecord } from '../../../internal/records/index.ts';

/** How long the next control plane waits for the one before it in the order. */
const STEP_MS = 30_000;
/** After a failure, a control plane tries again after this time, or after the period of the schedule if that is shorter. */
const RETRY_MS = 10 * MINUTE_MS;
/** A backup that is this much in the future shows that a clock was set back. */
const CLOCK_TOLERANCE_MS = 5 * MINUTE_MS;

/** The facts from which a control plane decides. */
export interface BackupInputs {
  readonly nowMs: number;
  readonly nodeId: string;
  readonly schedule: Pick<ScheduleCertificate, 'nodeIds' | 'everyMinutes' | 'issuedMs'>;
  readonly head: BackupHeadRecord | undefined;
  /** When the last attempt of this control plane failed; undefined if it succeeded. */
  readonly failedMs: number | undefined;
  /** All backups of the cluster that control planes keep. */
  readonly kept: readonly BackupRecord[];
}

/** The next action of a control plane. */
export type BackupPlan =
  | { readonly kind: 'take'; readonly seq: number }
  | { readonly kind: 'wait'; readonly why: string; readonly untilMs?: number };

/**
 * Decides whether this control plane takes a backup now. Pure. A backup is due one period after the newest proved
 * backup. The control plane whose own newest backup is the oldest goes first, so that the backups spread over all
 * control planes. Each further control plane waits half a minute longer than the one before it in the order, in case
 * that one is down or fails: one whose disk is full must not keep the others from it. A newest backup in the future
 * means that a clock was set back. Then a backup is due at once, and the numbers of the backups, not their times, keep
 * the order.
 */
export function planBackup({ nowMs, nodeId, schedule, head, failedMs, kept }: BackupInputs): BackupPlan {
  const position = positionOf(nodeId, schedule.nodeIds, kept);
  if (position < 0)
    return { kind: 'wait', why: 'a schedule that names this control plane: an owner has to sign it again' };
  const periodMs = schedule.everyMinutes * MINUTE_MS;
  const last = newestProved(kept);
  const isClockBack = last !== undefined && last.takenMs > nowMs + CLOCK_TOLERANCE_MS;
  const dueMs =
    last === undefined || isClockBack ? Math.min(schedule.issuedMs, nowMs) : last.takenMs + periodMs;
  // A failure in the future also means that a clock was set back, so it delays nothing.
  const retryMs =
    failedMs === undefined || failedMs > nowMs + CLOCK_TOLERANCE_MS
      ? 0
      : failedMs + Math.min(RETRY_MS, periodMs);
  const untilMs = Math.max(dueMs, retryMs) + position * Math.min(STEP_MS, periodMs / 4);
  if (nowMs < untilMs)
    return { kind: 'wait', why: `next backup at ${new Date(untilMs).toISOString()}`, untilMs };
  return { kind: 'take', seq: Math.max(head?.seq ?? 0, ...kept.map(({ seq }) => seq)) + 1 };
}

/** The newest backup that was proved, by number. */
export function newestProved(kept: readonly BackupRecord[]): BackupRecord | undefined {
  return kept.filter(({ provedMs }) => provedMs !== undefined).toSorted((a, b) => b.seq - a.seq)[0];
}

/**
 * The backups that a control plane deletes. Pure. The newest `keep` proved backups stay, so the last good one always
 * stays. The newest backup stays even if it is not proved.
 * @param own the backups on the disk of this control plane
 */
export function planRing(own: readonly BackupRecord[], keep: number): readonly BackupRecord[] {
  const newest = own.toSorted((a, b) => b.seq - a.seq);
  const proved = newest.filter(({ provedMs }) => provedMs !== undefined).slice(0, Math.max(1, keep));
  const latest = newest[0];
  return newest.filter((each) => !proved.includes(each) && each !== latest);
}

/**
 * The position of a node in the order in which nodes take the next backup: the node with the oldest newest backup is
 * first. -1 if the schedule does not name the node.
 */
function positionOf(nodeId: string, nodeIds: readonly string[], kept: readonly BackupRecord[]): number {
  const newestOf = (id: string): number =>
    Math.max(0, ...kept.filter((each) => each.nodeId === id).map(({ seq }) => seq));
  return nodeIds.toSorted((a, b) => newestOf(a) - newestOf(b) || (a < b ? -1 : 1)).indexOf(nodeId);
}
