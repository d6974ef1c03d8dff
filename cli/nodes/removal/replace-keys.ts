import { FIRST_GENERATION } from '../../../internal/keyset/index.ts';
import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { RemovedKeys, type RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { CodedError } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { fetchKeysView, type KeysView, callCurator } from '../../cluster/index.ts';
import {
  followRotation,
  followUntilSigned,
  requestRotation,
  restartSystemPods,
  type HeldKeys,
  type KeysOnDisk,
  type KeysOutcome,
} from '../../keys/index.ts';
import { isRecordDeleted } from './pending-removals.ts';
import { readRemoval } from './readmit.ts';

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
  readonly onDisk: KeysOnDisk;
  readonly held: HeldKeys | undefined;
}

/**
 * Finds out which shared keys a node holds, and requests a rotation if they must be replaced. Call it while
 * the node is still on record, so that an interrupted removal does not forget the rotation. Of a node that is removed
 * already, the record of its removal tells the same.
 */
export async function startKeyReplacement(
  context: CommandContext,
  node: Node,
  choice: KeyReplacementOptions,
): Promise<KeyReplacement> {
  const now = await callCurator(context, fetchKeysView);
  const removal = isRecordDeleted(node) ? await readRemoval(context, node.nodeId) : undefined;
  const held = heldGeneration(node, now, removal);
  const onDisk = keysOnDisk(node, removal, choice);
  if (held === undefined) return { outcome: 'none', onDisk, held: undefined };
  // Control planes trust only the current and the previous generation, so older keys of the node do not
  // matter.
  const generation = Math.max(held, (now?.generation ?? FIRST_GENERATION) - 1);
  const replacement = (outcome: KeysOutcome): KeyReplacement => ({
    ...{ outcome, onDisk },
    held: { generation, isReplaced: outcome === 'replaced' },
  });
  const stays = onDisk === 'unknown' ? 'unknown' : 'kept';
  if (now === undefined || choice.keep) return replacement(stays);
  if (now.generation > held) return replacement(now.isDone ? 'replaced' : 'under-way');
  if (isRecordDeleted(node) || onDisk === 'deleted') return replacement(stays);
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
  return isReplaced ? { ...requested, outcome: 'replaced', held: { ...held, isReplaced } } : requested;
}

function reasonOf({ name, nodeId }: Pick<Node, 'name' | 'nodeId'>): string {
  return `${name} (${nodeId}) was lost with these keys`;
}

/** What a removal tells about the shared keys of the node. */
type RemovedKeysOnRecord = Pick<RemovedMachine, 'sharedKeys' | 'keyGeneration'>;

/**
 * The newest generation of shared keys that a node held; undefined for none. Pure.
 * @param removal of a node whose record is deleted
 */
export function heldGeneration(
  node: Pick<Node, 'nodeId' | 'roles' | 'state' | 'status' | 'wasControlPlane'>,
  now: KeysView | undefined,
  removal?: RemovedKeysOnRecord,
): number | undefined {
  const { nodeId, state, status, wasControlPlane = false } = node;
  if (isRecordDeleted({ state })) {
    if (removal?.sharedKeys === RemovedKeys.NONE) return undefined;
    const recorded = Number(removal?.keyGeneration ?? 0n);
    if (recorded > 0) return recorded;
    // If the newest rotation was requested because of this node, it held the previous generation.
    const because = now?.reason.includes(nodeId) === true;
    return (now?.generation ?? FIRST_GENERATION) - (because ? 1 : 0);
  }
  if (!wasControlPlane && !mayHoldKeys(node)) return undefined;
  // An agent that reports no generation is too old to have taken part in a rotation.
  return status?.keys === undefined ? FIRST_GENERATION : Number(status.keys.generation);
}

/**
 * Whether the shared keys of a node are on its disk after its removal. A machine that leaves in order has reported that it
 * deleted them (`drainAndTakeRoles` waits for this report). Pure.
 */
export function keysOnDisk(
  node: Pick<Node, 'roles' | 'state' | 'status'>,
  removal: RemovedKeysOnRecord | undefined,
  { isLost }: Pick<KeyReplacementOptions, 'isLost'>,
): KeysOnDisk {
  if (!isRecordDeleted(node)) return isLost && mayHoldKeys(node) ? 'left' : 'deleted';
  if (removal?.sharedKeys === RemovedKeys.DELETED) return 'deleted';
  return removal?.sharedKeys === RemovedKeys.LEFT ? 'left' : 'unknown';
}

/**
 * Whether shared keys may be on the disk of a node. An interrupted removal has already taken the roles, so only the
 * last status of the node shows whether it holds keys.
 */
function mayHoldKeys({ roles, status }: Pick<Node, 'roles' | 'status'>): boolean {
  const isUnknown = roles.length === 0 && status?.keys === undefined;
  return isUnknown || roles.includes(NodeRole.CONSENSUS_MEMBER) || status?.holdsKeys === true;
}
