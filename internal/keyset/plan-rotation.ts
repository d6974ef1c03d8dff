import { hasReached, KEY_PHASES, type KeyPhase, type KeyStage } from './phases.ts';

/** A rotation as it is on record. */
export interface RotationRecord {
  readonly generation: number;
  /** `asked`: nobody has made the new keys yet. */
  readonly phase: KeyPhase | 'asked';
  /** The control plane that made the new keys. */
  readonly madeBy?: string | undefined;
}

/** A member of the cluster, as far as a rotation is concerned. */
export interface RotationMember {
  readonly nodeId: string;
  readonly name: string;
  readonly isControlPlane: boolean;
  readonly isAlive: boolean;
  /** What it has reached, as it says itself; undefined from an agent that cannot take part. */
  readonly stage: KeyStage | undefined;
}

export interface PendingMember {
  readonly nodeId: string;
  readonly name: string;
  /** For people. */
  readonly why: string;
}

export type RotationPlan =
  | { readonly kind: 'next'; readonly phase: KeyPhase }
  | { readonly kind: 'wait'; readonly awaited: readonly PendingMember[] }
  /** A control plane may make the new keys; `again`: of another generation, for there are or were keys of this one. */
  | { readonly kind: 'make'; readonly again: boolean }
  | { readonly kind: 'done' };

/**
 * Where a rotation goes from here. Control planes are waited for also while they are off: one that missed two phases could
 * not speak to its peers. Workers that are silent are not: they ask for what they missed when they are back.
 */
export function planRotation(now: RotationRecord, members: readonly RotationMember[]): RotationPlan {
  if (now.phase === 'done') return { kind: 'done' };
  const counted = members.filter(({ isControlPlane, isAlive: isBeating }) => isControlPlane || isBeating);
  if (now.phase === 'asked') {
    // Records that were restored may know less than the nodes have on disk.
    if (members.some(({ stage }) => stage !== undefined && stage.generation >= now.generation))
      return { kind: 'make', again: true };
    const unable = counted.filter(({ stage }) => stage === undefined);
    return unable.length === 0 ? { kind: 'make', again: false } : waiting(unable, now);
  }
  const stage = { generation: now.generation, phase: now.phase };
  const needed = now.phase === 'hand' ? counted.filter(({ isControlPlane }) => isControlPlane) : counted;
  const late = needed.filter((member) => !hasReached(member.stage, stage));
  const isMakerLost = !members.some(({ nodeId, isControlPlane }) => isControlPlane && nodeId === now.madeBy);
  if (now.phase === 'hand' && isMakerLost && late.length === needed.length)
    return { kind: 'make', again: true };
  if (late.length > 0) return waiting(late, now);
  return { kind: 'next', phase: KEY_PHASES[KEY_PHASES.indexOf(now.phase) + 1] ?? 'done' };
}

function waiting(late: readonly RotationMember[], now: RotationRecord): RotationPlan {
  const awaited = late.map((member) => ({
    nodeId: member.nodeId,
    name: member.name,
    why: whyLate(member, now),
  }));
  return { kind: 'wait', awaited };
}

function whyLate({ isAlive: isBeating, stage }: RotationMember, now: RotationRecord): string {
  if (!isBeating) return 'it is off; remove it if it will not come back';
  if (stage === undefined) return 'its agent is too old to replace keys';
  const at = stage.generation === now.generation ? `it is still at "${stage.phase}"` : 'it has not begun';
  return at;
}
