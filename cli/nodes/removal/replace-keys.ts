import { FIRST_GENERATION } from '../../../internal/keyset/index.ts';
import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { CodedError } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { fetchKeysView, type KeysView, callCurator } from '../../cluster/index.ts';
import {
  followRotation,
  followUntilSigned,
  requestRotation,
  restartSystemPods,
  type HeldKeys,
  type KeysOutcome,
} from '../../keys/index.ts';
import { isRecordDeleted } from './pending-removals.ts';

/** What the operator states about the machine, and how the operator wants its keys to be treated. */
export interface KeyReplacementOptions {
  /** The machine is lost, and its disk with it. */
  readonly isLost: boolean;
  /** Whether the operator keeps the keys, because nobody can read the disk of the removed node. */
  readonly keep: boolean;
  /** Whether to follow the rotation to its end. */
  readonly wait: boolean;
}

/** What happens to the shared keys that a removed node held. */
export interface KeyReplacement {
  readonly outcome: KeysOutcome;
  readonly held: HeldKeys | undefined;
}

/**
 * Finds out which shared keys a node holds, and requests a rotation if they must be replaced. Call it while
 * the node is still on record, so that an interrupted removal does not forget the rotation.
 */
export async function startKeyReplacement(
  context: CommandContext,
  node: Node,
  choice: KeyReplacementOptions,
): Promise<KeyReplacement> {
  const now = await callCurator(context, fetchKeysView);
  const held = heldGeneration(node, now);
  if (held === undefined) return { outcome: 'none', held: undefined };
  // Control planes trust only the current and the previous generation, so older keys of the node do not
  // matter.
  const generation = Math.max(held, (now?.generation ?? FIRST_GENERATION) - 1);
  const replacement = (outcome: KeysOutcome): KeyReplacement => ({
    outcome,
    held: { generation, isReplaced: outcome === 'replaced' },
  });
  const isUnknown = isRecordDeleted(node);
  if (now === undefined || choice.keep) return replacement(isUnknown ? 'unknown' : 'kept');
  if (now.generation > held) return replacement(now.isDone ? 'replaced' : 'under-way');
  if (isUnknown) return replacement('unknown');
  if (!choice.isLost) return replacement('kept');
  try {
    // After a recovery from a backup, the node may have held a newer generation than the restored records
    // contain.
    const replaces = Math.min(held, now.generation);
    await requestRotation(context, { reason: reasonOf(node), replaces });
    return replacement('under-way');
  } catch (error) {
    if (error instanceof CodedError && error.code === 'curator-denied') return replacement('owner-needed');
    throw error;
  }
}

/**
 * Follows a requested rotation until the cluster has keys that the removed node never held; without `wait` until an owner has
 * signed the new keys. Call it when the node is no member any more: keys that it created are not signed.
 */
export async function awaitKeyReplacement(
  context: CommandContext,
  node: Pick<Node, 'name' | 'nodeId'>,
  { requested, wait }: { readonly requested: KeyReplacement; readonly wait: boolean },
): Promise<KeyReplacement> {
  const { held, outcome } = requested;
  if (held === undefined || outcome !== 'under-way') return requested;
  if (!wait) {
    await followUntilSigned(context, held.generation);
    return requested;
  }
  // If a rotation was under way when the node was lost, the node received the new keys too. Then another
  // rotation is needed.
  let keys = await followRotation(context, held.generation);
  if (keys.isDone && keys.generation <= held.generation) {
    const next = await requestRotation(context, { reason: reasonOf(node), replaces: keys.generation });
    keys = await followRotation(context, next.generation);
  }
  const isReplaced = keys.isDone && keys.generation > held.generation;
  if (isReplaced) await restartSystemPods(context, keys.generation);
  return isReplaced ? { outcome: 'replaced', held: { ...held, isReplaced } } : requested;
}

function reasonOf({ name, nodeId }: Pick<Node, 'name' | 'nodeId'>): string {
  return `${name} (${nodeId}) was lost with these keys`;
}

/** The newest generation of shared keys that a node held; undefined for none. Pure. */
export function heldGeneration(
  { nodeId, roles, state, status }: Pick<Node, 'nodeId' | 'roles' | 'state' | 'status'>,
  now: KeysView | undefined,
): number | undefined {
  if (isRecordDeleted({ state })) {
    // The records of the node are deleted. If the newest rotation was requested because of this node, it held
    // the previous generation.
    const because = now?.reason.includes(nodeId) === true;
    return (now?.generation ?? FIRST_GENERATION) - (because ? 1 : 0);
  }
  // An interrupted removal has already taken the roles, so only the node's last status shows whether it held
  // keys.
  const mayHaveHeld = roles.length === 0 && status?.keys === undefined;
  const held = mayHaveHeld || roles.includes(NodeRole.CONSENSUS_MEMBER) || status?.holdsKeys === true;
  if (!held) return undefined;
  // An agent that reports no generation is too old to have taken part in a rotation.
  return status?.keys === undefined ? FIRST_GENERATION : Number(status.keys.generation);
}
