/**
 * What this node can be asked by operators, over streams that it opens itself, one to each curator:
 *
 * ```
 * LogRing ◀── the agent's log             curator ── Task ──▶ session ──▶ runTask ──▶ ring, journal, TPM, metrics
 *    └─ backlog and what follows                  ◀─ TaskData ──┘  (never more than the curator gave credit for)
 * ```
 */
export { attendWorker, planAttend, type AttendOptions } from './attend-worker.ts';
export { AttendError, attendErrors, type AttendErrorCode } from './errors.ts';
export { LogRing } from './log-ring.ts';
export { attend } from './session.ts';
export type { TaskPorts } from './tasks.ts';
