import { isControlPlane, type Role } from '../role/index.ts';
import {
  hasReached,
  KEY_PHASES,
  LATER_KEYS,
  parseStage,
  type KeyPhase,
  type KeyStage,
  type LaterKey,
} from './phases.ts';

/** The record of a rotation. */
export interface RotationRecord {
  readonly generation: number;
  /** `asked`: an owner requested the rotation; no control plane has distributed new keys yet. */
  readonly phase: KeyPhase | 'asked';
  /** Node id of the control plane that created the new keys; in phase `asked` they wait for an owner's signature. */
  readonly madeBy?: string | undefined;
}

/** The facts about a member of the cluster that `planRotation()` uses. */
export interface RotationMember {
  readonly nodeId: string;
  readonly name: string;
  readonly isControlPlane: boolean;
  readonly isAlive: boolean;
  /** The stage that the node reported; undefined for an agent that is too old to take part. */
  readonly stage: KeyStage | undefined;
  /** Whether the agent of the node knows rotations that replace the encryption key. */
  readonly knowsEncryption: boolean;
  /** The `LATER_KEYS` that the agent of the node can replace. */
  readonly laterKeys: readonly string[];
}

/** A member as its record and its last status (`NodeStatus.keys`) describe it. Pure. */
export function rotationMemberFrom(
  {
    nodeId,
    name,
    roles,
  }: { readonly nodeId: string; readonly name: string; readonly roles: readonly Role[] },
  isAlive: boolean,
  keys:
    (Parameters<typeof parseStage>[0] & Pick<RotationMember, 'knowsEncryption' | 'laterKeys'>) | undefined,
): RotationMember {
  return {
    ...{ nodeId, name, isAlive, isControlPlane: isControlPlane(roles) },
    stage: keys && parseStage(keys),
    knowsEncryption: keys?.knowsEncryption === true,
    laterKeys: keys?.laterKeys ?? [],
  };
}

/** A member that a rotation waits for. */
interface PendingMember {
  readonly nodeId: string;
  readonly name: string;
  /** Why the rotation waits for this member, as text for the operator. */
  readonly why: string;
}

/** The next step of a rotation. */
type RotationPlan =
  | { readonly kind: 'next'; readonly phase: KeyPhase }
  | { readonly kind: 'wait'; readonly awaited: readonly PendingMember[] }
  /** A control plane may create the new keys; `again`: with a new generation, because keys of this generation exist. */
  | { readonly kind: 'make'; readonly again: boolean }
  /** The control plane that created the new keys may distribute them as soon as an owner has signed them. */
  | { readonly kind: 'sign' }
  | { readonly kind: 'done' };

/**
 * Plans the next step of a rotation. It waits for control planes even while they are down: a control plane that misses two
 * phases could not connect to its peers. It does not wait for workers that are down: they catch up when they return.
 */
export function planRotation(now: RotationRecord, members: readonly RotationMember[]): RotationPlan {
  if (now.phase === 'done') return { kind: 'done' };
  const counted = members.filter(({ isControlPlane, isAlive }) => isControlPlane || isAlive);
  const isMakerLost = !members.some(({ nodeId, isControlPlane }) => isControlPlane && nodeId === now.madeBy);
  if (now.phase === 'asked') {
    // After a restore of etcd, nodes may have newer keys on disk than the records list.
    if (members.some(({ stage }) => stage !== undefined && stage.generation >= now.generation))
      return { kind: 'make', again: true };
    if (now.madeBy !== undefined) return isMakerLost ? { kind: 'make', again: true } : { kind: 'sign' };
    const unable = counted.filter((member) => whyUnable(member) !== undefined);
    return unable.length === 0 ? { kind: 'make', again: false } : waiting(unable, now);
  }
  const stage = { generation: now.generation, phase: now.phase };
  const needed =
    now.phase === 'distribute' ? counted.filter(({ isControlPlane }) => isControlPlane) : counted;
  const late = needed.filter((member) => !hasReached(member.stage, stage));
  if (now.phase === 'distribute' && isMakerLost && late.length === needed.length)
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

function whyLate(member: RotationMember, now: RotationRecord): string {
  const { isAlive, stage } = member;
  if (!isAlive) return 'not reachable; remove the node if it will not return';
  const why = whyUnable(member);
  if (why !== undefined) return why;
  return stage?.generation === now.generation ? `still in phase "${stage.phase}"` : 'has not started';
}

const LATER_KEY_NAMES: Readonly<Record<LaterKey, string>> = {
  'kubernetes-ca': 'the Kubernetes CA',
  'cluster-ca': 'the cluster CA',
};

/** Why the agent of a member cannot take part in a rotation of this version. */
function whyUnable({ stage, knowsEncryption, laterKeys }: RotationMember): string | undefined {
  if (stage === undefined) return 'its agent is too old to rotate keys';
  if (!knowsEncryption) return 'its agent is too old to replace the encryption key';
  const unknown = LATER_KEYS.find((name) => !laterKeys.includes(name));
  return unknown && `its agent is too old to replace ${LATER_KEY_NAMES[unknown]}`;
}
