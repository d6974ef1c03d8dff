/**
 * What operators ask of single nodes. Nodes listen on nothing for operators; each holds a stream open to every curator,
 * and questions go over that:
 *
 * ```
 * operator ── StreamLogs, GetEvidence, GetMetrics ──▶ handlers ──▶ Attendance of the node ── Task, Credit, Cancel ──▶ node
 *          ◀────────────── in order, as fast as it is taken ───────────────┘ ◀────────────── TaskData, TaskDone ──────┘
 * ```
 *
 * Memory is bounded for each task (credit) and for each node (tasks); a node that breaks the rules loses its stream.
 */
export { NodeSessions } from './node-session.ts';
export { StreamError, streamErrors, type StreamErrorCode } from './errors.ts';
export { streamHandlers, type StreamHandlerParts } from './stream-handlers.ts';
