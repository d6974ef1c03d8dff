/**
 * The local cluster: real machines in containers on this one, and the very same `init` on them.
 * Use cases of `cluster mini …`; what a machine is made of is in `internal/machines`.
 */
export { MiniError, miniErrors, type MiniErrorCode } from './errors.ts';
export { runMiniDown, runMiniExec, runMiniLs, runMiniStart, runMiniStop } from './manage-machines.ts';
export { runMiniPreflight } from './preflight.ts';
export { runMiniUp, type MiniUpOptions } from './up.ts';
