/**
 * Node streams: requests of operators to this node, over streams that the node opens, one to each curator:
 *
 * ```
 * LogRing ◀── the agent's log             curator ── Task ──▶ session ──▶ runTask ──▶ ring, journal, TPM, metrics
 *    └─ backlog and new lines                     ◀─ TaskData ──┘  (limited by the credit of the curator)
 * ```
 */
export { nodeStreamWorker, type NodeStreamOptions } from './node-stream-worker.ts';
export { type NodeStreamErrorCode } from './errors.ts';
export { LogRing } from './log-ring.ts';
export type { TaskPorts } from './tasks.ts';
