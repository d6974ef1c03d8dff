import type { BackupHeader } from '../../internal/backup/index.ts';

/** A file in a directory of backups. */
interface Candidate {
  readonly status: string;
  readonly provedMs: number | undefined;
  readonly header: Pick<BackupHeader, 'epoch' | 'revisions' | 'takenMs'> | undefined;
}

/**
 * The backups to delete so that `keep` good ones stay. Pure. Only good backups are counted and deleted, and the newest
 * proved backup always stays. Backups are ordered by the epoch and revision in their headers, so a clock that was set
 * back does not change the order.
 */
export function planRetention<T extends Candidate>(listed: readonly T[], keep: number): readonly T[] {
  const good = listed.filter(({ status }) => status === 'good').toSorted(newestFirst);
  const newestProved = good.find(({ provedMs }) => provedMs !== undefined);
  return good.slice(Math.max(1, keep)).filter((each) => each !== newestProved);
}

/** Orders backups of one cluster, whatever the clocks were. A file without a header, which is no good backup, comes last. */
export function newestFirst(
  { header: a }: Pick<Candidate, 'header'>,
  { header: b }: Pick<Candidate, 'header'>,
): number {
  if (a === undefined || b === undefined) return (a === undefined ? 1 : 0) - (b === undefined ? 1 : 0);
  if (a.epoch !== b.epoch) return b.epoch - a.epoch;
  const [own, other] = [BigInt(a.revisions.state), BigInt(b.revisions.state)];
  if (own !== other) return own < other ? 1 : -1;
  return b.takenMs - a.takenMs;
}
