/**
 * Node streams: the node opens one stream to each curator, over which it receives requests of operators:
 *
 * ```
 * LogRing ◀── the agent's log             curator ── Task ──▶ session ──▶ runTask ──▶ ring, journal, TPM, metrics
 *    └─ backlog and new lines                     ◀─ TaskData ──┘  (limited by the credit of the curator)
 * ```
 */
export { obeyPowerOrder } from './power.ts';
export { nodeStreamWorker } from './node-stream-worker.ts';
export { LogRing } from './log-ring.ts';
export type { TaskPorts } from './tasks.ts';
