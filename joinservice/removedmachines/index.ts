/**
 * The list of machines that the cluster refuses, for its nodes, and what kept workers report after a restore from a backup that is older than a removal.
 *
 * ```
 * removed/, documents/readmission/ (etcd) ─▶ RemovedList (shared) ─▶ hash in WatchDirectory; machines ─▶ FetchRemovals
 * kept worker ─ ReportRemovals ─▶ takeReport() ─▶ removed/IDENTITY, unless it is a member; kept/workers/ID
 * ```
 */
export { RemovedList } from './removed-list.ts';
export { takeReport } from './take-report.ts';
