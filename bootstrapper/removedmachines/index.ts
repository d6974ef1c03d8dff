/**
 * The machines that the cluster refuses, which every node keeps: a kept worker tells them to a cluster that was restored from an older backup.
 *
 * ```
 * directory worker ─▶ clusterRemovals (hash) ─▶ removedMachinesWorker ─ FetchRemovals ─▶ removals.json
 *                                                 │ newer epoch: ReportRemovals, then the file
 *                                                 └─▶ unmergedRemovals ─▶ status of the node, for `cluster doctor`
 * ```
 */
export { removedMachinesWorker } from './removed-machines-worker.ts';
export type { SavedRemovals } from './saved-removals.ts';
export { unmergedProblems } from './unmerged-problems.ts';
