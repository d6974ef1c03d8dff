/**
 * Calls of operators to single nodes. Nodes listen on no port for operators: each node opens a session with every curator, and
 * tasks are sent over it:
 *
 * ```
 * operator ── StreamLogs, GetEvidence, GetMetrics ──▶ handlers ──▶ NodeSession ── Task, Credit, Cancel ──▶ node
 *          ◀────────────── in order, as fast as it is read ───────────────┘ ◀────────────── TaskData, TaskDone ──────┘
 * ```
 *
 * Memory is bounded for each task (credit) and for each node (tasks). A node that violates the protocol loses its session.
 */
export { NodeSessions } from './node-session.ts';
export { streamHandlers } from './stream-handlers.ts';
