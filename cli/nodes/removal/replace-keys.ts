import { NodeRole, NodeState, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { CodedError } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { fetchKeysView, type KeysView, callCurator } from '../../cluster/index.ts';
import { followRotation, requestRotation, type HeldKeys, type KeysOutcome } from '../../keys/index.ts';

const FIRST_GENERATION = 1;

export interface KeyReplacementOptions {
  /** The machine is gone, with what is on its disk. */
  readonly isLost: boolean;
  /** The operator knows that nobody can read its disk. */
  readonly keep: boolean;
  /** Whether to follow a replacement to its end. */
  readonly wait: boolean;
}

/** What becomes of the keys that a removed node held. */
export interface KeyReplacement {
  readonly outcome: KeysOutcome;
  readonly held: HeldKeys | undefined;
}

/**
 * Which keys a node held that is to be removed, and whether they are to be replaced. It is asked for while the node is still
 * on record: an interrupted removal must not forget it.
 */
export async function startKeyReplacement(
  context: CommandContext,
  node: Node,
  choice: KeyReplacementOptions,
): Promise<KeyReplacement> {
  const now = await callCurator(context, (_, call, of) => fetchKeysView(of, call));
  const held = heldGeneration(node, now);
  if (held === undefined) return { outcome: 'none', held: undefined };
  // Older ones than those before the newest are not kept, and believed by nobody who does not believe these.
  const generation = Math.max(held, (now?.generation ?? FIRST_GENERATION) - 1);
  const fate = (outcome: KeysOutcome): KeyReplacement => ({
    outcome,
    held: { generation, isReplaced: outcome === 'replaced' },
  });
  if (now === undefined || choice.keep) return fate('kept');
  if (now.generation > held) return fate(now.isDone ? 'replaced' : 'under-way');
  if (node.state === NodeState.UNSPECIFIED) return fate('unknown');
  if (!choice.isLost) return fate('kept');
  try {
    // Of records that were restored the node may have had newer ones than these know.
    const replaces = Math.min(held, now.generation);
    await requestRotation(context, { reason: reasonOf(node), replaces });
    return fate('under-way');
  } catch (error) {
    if (error instanceof CodedError && error.code === 'curator-denied') return fate('owner-needed');
    throw error;
  }
}

/** Follows a replacement that was asked for: to keys that the removed node never had. */
export async function awaitKeyReplacement(
  context: CommandContext,
  node: Pick<Node, 'name' | 'nodeId'>,
  { fate, wait }: { readonly fate: KeyReplacement; readonly wait: boolean },
): Promise<KeyReplacement> {
  const { held, outcome } = fate;
  if (held === undefined || outcome !== 'under-way' || !wait) return fate;
  // One that was under way when the node was lost has given it the new ones too: then it takes another.
  let keys = await followRotation(context, held.generation);
  if (keys.isDone && keys.generation <= held.generation) {
    const next = await requestRotation(context, { reason: reasonOf(node), replaces: keys.generation });
    keys = await followRotation(context, next.generation);
  }
  const isReplaced = keys.isDone && keys.generation > held.generation;
  return isReplaced ? { outcome: 'replaced', held: { ...held, isReplaced } } : fate;
}

function reasonOf({ name, nodeId }: Pick<Node, 'name' | 'nodeId'>): string {
  return `${name} was lost with them (${nodeId})`;
}

/** The newest generation that a node had keys of; undefined where it had none. Pure. */
export function heldGeneration(
  { nodeId, roles, state, status }: Pick<Node, 'nodeId' | 'roles' | 'state' | 'status'>,
  now: KeysView | undefined,
): number | undefined {
  if (state === NodeState.UNSPECIFIED) {
    // Its records are gone. If the newest keys were asked for because of it, it had those of before.
    const because = now?.reason.includes(nodeId) === true;
    return (now?.generation ?? FIRST_GENERATION) - (because ? 1 : 0);
  }
  // A removal that was interrupted has taken the roles already: then only what it said last can tell.
  const mayHaveHeld = roles.length === 0 && status?.keys === undefined;
  const held = mayHaveHeld || roles.includes(NodeRole.CONSENSUS_MEMBER) || status?.holdsKeys === true;
  if (!held) return undefined;
  const said = status?.keys;
  // One that says nothing is too old to have taken part in any.
  return said === undefined ? FIRST_GENERATION : Number(said.generation);
}
