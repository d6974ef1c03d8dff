/**
 * The supervisor tree: every long-running part of a program is a `Runnable` with a path, and is restarted when it fails.
 *
 *     root ── healthy                     new ──▶ healthy ──▶ done
 *      ├─ enrolment ── done                 │         │
 *      └─ roleserve ── healthy              └────┬────┘
 *          ├─ rolefetch ── dead, next try in 2 s ▼
 *          └─ kubernetes ── new (waiting: role)  dead | canceled ──▶ new (again)
 *
 * - A runnable that returns without `done()` has failed and is restarted.
 * - Members of a group are stopped and restarted together. A subtree is restarted only when all of it has ended.
 * - Restarts back off (0.5 s, ×1.5, at most 60 s, with jitter) until a run has *stayed* healthy.
 *   A requested restart (`scope.restart(reason)`) logs no error and has no backoff.
 * - A runnable that ignores its signal is named in the log; then the tree stops, `finished` rejects, and the program
 *   exits, so that systemd kills what is left.
 * - `tree()` returns the state of every runnable, since when, what it waits for and its last error.
 *
 * Only `Supervisor` writes states. Runnables only see their `Scope`.
 */
export { launcher, type Plan } from './launcher.ts';
export { runProgram } from './run-program.ts';
export { RestartRequested, type Runnable, type Scope } from './runnable.ts';
export type { RunnableSnapshot, TreeSnapshot } from './snapshot.ts';
export type { RunnableState } from './state.ts';
export { supervise } from './supervisor.ts';
