/**
 * What this node can be asked by operators, over streams that it opens itself, one to each curator:
 *
 * ```
 * LogRing ◀── the agent's log             curator ── Task ──▶ session ──▶ runTask ──▶ ring, journal, TPM, metrics
 *    └─ backlog and what follows                  ◀─ TaskData ──┘  (never more than the curator gave credit for)
 * ```
 */
export { nodeStreamWorker, planNodeStream, type NodeStreamOptions } from './node-stream-worker.ts';
export { NodeStreamError, nodeStreamErrors, type NodeStreamErrorCode } from './errors.ts';
export { LogRing } from './log-ring.ts';
export { runNodeSession } from './node-session.ts';
export type { TaskPorts } from './tasks.ts';
