import { formatDuration } from '../../clock/index.ts';
import { formatBytes } from '../../printable/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { BackupFacts, ClusterFacts, FactsPart } from '../cluster-facts.ts';
import { judgePart, type Observe } from '../observe.ts';
import {
  BACKUP_ERROR_PERIODS,
  BACKUP_GRACE_MS,
  BACKUP_WARNING_PERIODS,
  DOCUMENT_WARNING_MS,
} from '../thresholds.ts';
import { judgeEnd } from './expiry-checks.ts';

function partOf({ backups }: ClusterFacts): FactsPart<BackupFacts> {
  return (
    backups ?? {
      ok: false,
      error: 'the facts were saved by a release that does not collect facts about backups',
      codes: [],
    }
  );
}

/**
 * Judges the age of the newest proved backup, and the last attempt. Without a schedule there is nothing to judge: the
 * report says that backups were not checked, because the operator may take them in another way.
 */
export const backup: Observe = (facts) => {
  const subject = 'newest proved backup';
  return judgePart(partOf(facts), { subject, threshold: 'proved' }, ({ schedule, ...seen }) => {
    if (schedule === undefined) return [];
    const limitMs = BACKUP_WARNING_PERIODS * schedule.everyMs + BACKUP_GRACE_MS;
    const threshold = `at most ${formatDuration(limitMs)} old (two periods and 10m)`;
    const provedMs = seen.newestProvedMs;
    const ageMs = facts.takenMs - (provedMs ?? schedule.issuedMs);
    const figure = provedMs === undefined ? 'none' : `${formatDuration(ageMs)} old`;
    const cause =
      ageMs <= limitMs
        ? undefined
        : provedMs === undefined
          ? `no backup was proved since the schedule was signed ${formatDuration(ageMs)} ago`
          : `the newest proved backup is ${formatDuration(ageMs)} old, one is due every ${formatDuration(schedule.everyMs)}`;
    const isLate = ageMs > BACKUP_ERROR_PERIODS * schedule.everyMs + BACKUP_GRACE_MS;
    return [
      { subject, figure, threshold, problem: isLate ? failed(cause) : warned(cause) },
      attempt(seen.failure, facts.takenMs),
    ];
  });
};

function attempt(failure: BackupFacts['failure'], nowMs: number): Observation {
  const seen = { subject: 'last backup attempt', threshold: 'succeeded' };
  if (failure === undefined) return { ...seen, figure: 'succeeded' };
  const { node, timeMs, code, message } = failure;
  const figure = `failed ${formatDuration(nowMs - timeMs)} ago`;
  return { ...seen, node, figure, problem: warned(`a backup failed on node ${node}: ${code}: ${message}`) };
}

/** Whether the unencrypted data of a proof was in memory or on an encrypted disk. */
export const proof: Observe = (facts) => {
  const subject = 'data of proofs';
  const threshold = 'in memory or on an encrypted disk';
  return judgePart(partOf(facts), { subject, threshold }, ({ schedule: signed, clearProofs = [] }) => {
    if (signed === undefined) return [];
    if (clearProofs.length === 0) return [{ subject, figure: 'protected', threshold }];
    return clearProofs.map(({ node, sizeBytes }) => ({
      ...{ subject: `data of proofs of ${node}`, node, figure: 'on an unencrypted disk', threshold },
      problem: warned(
        `node ${node} proved its newest backup on its unencrypted state disk: in memory the proof needs ${formatBytes(sizeBytes)}, and 512 MiB must stay available`,
      ),
    }));
  });
};

/** Whether each control plane has its backups in the directory or the store that the schedule names. */
export const copies: Observe = (facts) => {
  const subject = 'copies of backups';
  const threshold = 'all proved backups copied';
  return judgePart(partOf(facts), { subject, threshold }, ({ schedule: signed, copies: reported }) => {
    if (signed === undefined) return [];
    if (reported === undefined) return [{ subject, figure: 'no target for copies', threshold }];
    const seen = reported.map(({ node, count, failure }) => {
      const copied = { subject: `copies of ${node}`, node, threshold };
      if (failure === undefined) return { ...copied, figure: `${count} copied` };
      const forMs = formatDuration(facts.takenMs - failure.timeMs);
      const cause = `node ${node} has failed to copy its backups for ${forMs}: ${failure.code}: ${failure.message}`;
      return { ...copied, figure: `failing for ${forMs}`, problem: failed(cause) };
    });
    const isNew = facts.takenMs - signed.issuedMs <= BACKUP_GRACE_MS;
    const silent = isNew ? [] : backingUp(facts, signed).filter(({ name }) => !isReported(reported, name));
    const missing = silent.map(({ name: node }) => ({
      ...{ subject: `copies of ${node}`, node, figure: 'not reported', threshold },
      problem: warned(
        `node ${node} reports no copies of its backups; agents of earlier versions make no copies`,
      ),
    }));
    const all = [...seen, ...missing];
    return all.length === 0 ? [{ subject, figure: 'none yet', threshold }] : all;
  });
};

function isReported(reported: NonNullable<BackupFacts['copies']>, name: string): boolean {
  return reported.some(({ node }) => node === name);
}

/**
 * The control planes that must have reported copies: they are up, the schedule names them, and they did not join just
 * now.
 */
function backingUp(
  { records, takenMs }: ClusterFacts,
  { nodeIds }: NonNullable<BackupFacts['schedule']>,
): readonly { readonly name: string }[] {
  if (!records.ok) return [];
  return records.value.nodes.filter(
    ({ id, isControlPlane, state, createdMs }) =>
      isControlPlane && state === 'up' && nodeIds.includes(id) && takenMs - createdMs > BACKUP_GRACE_MS,
  );
}

/** Judges when the owner's signature on the schedule expires, and whether the schedule names every control plane. */
export const schedule: Observe = (facts) => {
  const subject = 'schedule of backups';
  const threshold = `ends in more than ${formatDuration(DOCUMENT_WARNING_MS)}`;
  return judgePart(partOf(facts), { subject, threshold }, ({ schedule: signed }) => {
    if (signed === undefined) return [];
    const end = judgeEnd(facts.takenMs, {
      ...{ subject, threshold, endMs: signed.endsMs },
      marginMs: DOCUMENT_WARNING_MS,
    });
    const missing = facts.records.ok
      ? facts.records.value.nodes.filter(
          ({ id, isControlPlane, state }) => isControlPlane && state === 'up' && !signed.nodeIds.includes(id),
        )
      : [];
    return [
      end,
      ...missing.map(({ name: node }) => ({
        ...{ subject: `backups by ${node}`, node, figure: 'not signed', threshold: 'signed' },
        problem: warned(`control plane ${node} takes no backups, because the schedule does not name it`),
      })),
    ];
  });
};
