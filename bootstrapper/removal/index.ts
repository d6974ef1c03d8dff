/**
 * A node that its cluster has removed.
 *
 * ```
 * curators: no record of this node ─▶ removed.json on disk ─▶ the agent ends
 *                                                                 │ systemd
 * says on console, socket and status that it was removed ◀─ units stopped ◀─ runRemoved
 * ```
 * Its data stays on the disk until an owner or root resets the machine, which also deletes removed.json.
 */
export { removalRunnable } from './removal-runnable.ts';
export { runRemoved } from './run-removed.ts';
