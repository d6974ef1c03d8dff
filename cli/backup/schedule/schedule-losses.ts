import { copyPlaceOf, type ScheduleCertificate } from '../../../internal/backup/index.ts';
import { formatDuration, MINUTE_MS } from '../../../internal/clock/index.ts';
import { counted, printable } from '../../../internal/printable/index.ts';
import type { KeptBackup } from './schedule-view.ts';

/**
 * What the cluster loses when a schedule replaces the earlier one. Every flag that is not given has its default, so a schedule
 * that is signed again for one change may drop the target of copies and other recovery keys.
 * @param before not verified
 * @param backups the backups that control planes keep now
 */
export function lossesOfReplacement(
  before: ScheduleCertificate,
  after: ScheduleCertificate,
  backups: readonly KeptBackup[],
): readonly string[] {
  const place = copyPlaceOf(before);
  const lost: readonly (readonly [isLost: boolean, loss: string])[] = [
    [
      after.everyMinutes > before.everyMinutes,
      `a backup every ${periodOf(before)}: now every ${periodOf(after)}`,
    ],
    [
      after.keep < before.keep,
      `${before.keep} proved backups on each control plane: now ${after.keep}; ${counted(countAbove(backups, after.keep), 'backup')} deleted now, and copies above this number`,
    ],
    [
      place !== undefined && place !== copyPlaceOf(after),
      `new copies in ${printable(place ?? '')}: the copies there stay`,
    ],
    [
      before.copyToStore !== undefined && after.copyToStore === undefined,
      'the access key of the store in the cluster',
    ],
    [
      before.copyToStore?.ca !== undefined &&
        after.copyToStore !== undefined &&
        after.copyToStore.ca === undefined,
      'the CA certificates with which control planes verify the store (--s3-ca)',
    ],
    ...before.recipients
      .filter((each) => !after.recipients.includes(each))
      .map((each) => [true, `recovery key ${printable(each)}: it opens no new backup`] as const),
    [
      before.workspaceSha256 !== undefined && after.workspaceSha256 === undefined,
      'the workspace in new backups, because this workspace has no master secret: a restore needs the workspace of the first owner',
    ],
    [
      after.endsMs < before.endsMs,
      `backups until ${dayOf(before)}: the new signature is valid until ${dayOf(after)}`,
    ],
  ];
  return lost.filter(([isLost]) => isLost).map(([, loss]) => loss);
}

/** How many proved backups control planes delete if each of them keeps this number. */
function countAbove(backups: readonly KeptBackup[], keep: number): number {
  const proved = backups.filter(({ provedMs }) => provedMs !== undefined);
  const perNode = Map.groupBy(proved, ({ nodeId }) => nodeId).values();
  return [...perNode].reduce((sum, { length }) => sum + Math.max(0, length - keep), 0);
}

function periodOf({ everyMinutes }: ScheduleCertificate): string {
  return formatDuration(everyMinutes * MINUTE_MS);
}

function dayOf({ endsMs }: ScheduleCertificate): string {
  return new Date(endsMs).toISOString();
}
