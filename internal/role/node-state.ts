import { RoleError } from './errors.ts';

/**
 * The states of a node in its cluster.
 *
 * - NEW: requested to join, not decided yet.
 * - STANDBY: approved, without a certificate yet.
 * - UP: a member with a certificate and roles.
 * - DECOMMISSIONED: no longer a member, refused everywhere. The record stays until it is deleted.
 */
export const NODE_STATES = ['NEW', 'STANDBY', 'UP', 'DECOMMISSIONED'] as const;
/** One of `NODE_STATES`. */
export type NodeState = (typeof NODE_STATES)[number];

/** All allowed transitions. None leads back: a removed machine joins again with a new key. */
const MOVES: Readonly<Record<NodeState, readonly NodeState[]>> = {
  NEW: ['STANDBY', 'DECOMMISSIONED'],
  STANDBY: ['UP', 'DECOMMISSIONED'],
  UP: ['DECOMMISSIONED'],
  DECOMMISSIONED: [],
};

/**
 * Whether the state changes; false if the node already has the wanted state.
 * @throws RoleError `role-state-move` for a transition that is not allowed
 */
export function checkNodeMove(from: NodeState, to: NodeState): boolean {
  if (from === to) return false;
  if (MOVES[from].includes(to)) return true;
  throw new RoleError('role-state-move', `cannot change the state of a node from ${from} to ${to}`, {
    details: { from, to },
  });
}

/** Whether a node in this state is a member whose calls are served. */
export function isMemberState(state: NodeState): boolean {
  return state === 'UP';
}
