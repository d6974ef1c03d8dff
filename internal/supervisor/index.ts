/**
 * Ground: the supervisor tree. Whatever lives long in a program is a `Runnable` in one tree, named by
 * its path, and starts again when it fails.
 *
 *     root ── healthy                     new ──▶ healthy ──▶ done
 *      ├─ enrolment ── done                 │         │
 *      └─ roleserve ── healthy              └────┬────┘
 *          ├─ rolefetch ── dead, next try in 2 s ▼
 *          └─ kubernetes ── new (waiting: role)  dead | canceled ──▶ new (again)
 *
 * - Returning is failing, unless `done()` was said before: what should run and does not is started again.
 * - Members of one group fall together. A subtree starts again only when all of it has ended.
 * - Failures back off (0.5 s, ×1.5, at most 60 s, with jitter) until a life has *stayed* healthy.
 *   A wanted restart (`scope.restart(why)`) is calm: no error line, no backoff.
 * - What ignores its signal is named in the log; then the tree stops, `finished` rejects, and the
 *   program exits so that systemd can do what JavaScript cannot: end it.
 * - `tree()` answers what every runnable does, since when, what it waits for and what it died of last.
 *
 * Every state has one writer, `Supervisor`. Runnables only see their `Scope`.
 */
export { SupervisorError, supervisorErrors, type SupervisorErrorCode } from './errors.ts';
export { launcher, type LauncherOptions, type Plan } from './launcher.ts';
export { RestartRequested, type Runnable, type Scope } from './runnable.ts';
export type { RunnableSnapshot, TreeSnapshot } from './snapshot.ts';
export type { RunnableState } from './state.ts';
export { supervise, type Supervision, type SupervisorOptions } from './supervisor.ts';
