import { RoleError } from './errors.ts';

/**
 * Where a node stands with its cluster.
 *
 * - NEW: it asked to join; nobody has decided.
 * - STANDBY: approved; it has no certificate yet.
 * - UP: a member, with a certificate, and with roles to run.
 * - DECOMMISSIONED: no member any more, refused everywhere, for ever. The record stays until it is deleted.
 */
export const NODE_STATES = ['NEW', 'STANDBY', 'UP', 'DECOMMISSIONED'] as const;
export type NodeState = (typeof NODE_STATES)[number];

/** Every move there is. Nothing leads back: a machine that was taken out comes again with a new key. */
const MOVES: Readonly<Record<NodeState, readonly NodeState[]>> = {
  NEW: ['STANDBY', 'DECOMMISSIONED'],
  STANDBY: ['UP', 'DECOMMISSIONED'],
  UP: ['DECOMMISSIONED'],
  DECOMMISSIONED: [],
};

/** Whether a record moves: `false` when it is there already; throws `role-state-move` on a move that is not in the table. */
export function checkNodeMove(from: NodeState, to: NodeState): boolean {
  if (from === to) return false;
  if (MOVES[from].includes(to)) return true;
  throw new RoleError('role-state-move', `moving a node from ${from} to ${to}`, { details: { from, to } });
}

/** Whether a node in this state is a member whose calls are answered. */
export function isMemberState(state: NodeState): boolean {
  return state === 'UP';
}
