/**
 * Use cases of `cluster mini …`: local clusters whose machines are containers or virtual machines on this machine, created by the same `init` as
 * other clusters. The machines themselves are in `internal/localmachines`.
 */
export { findAgentPackage, packageDirectories } from './agent-package.ts';
export type { DiskWriter, ImageBuilder } from './create-machines.ts';
export { MiniError, miniErrors } from './errors.ts';
export {
  runMiniDown,
  runMiniExec,
  runMiniLs,
  runMiniStart,
  runMiniStop,
  type MiniDownOptions,
} from './manage-machines.ts';
export { runMiniPreflight } from './preflight.ts';
export { runMiniRestore, type MiniRestoreOptions } from './restore-drill.ts';
export { runMiniUp, type MiniUpOptions } from './up.ts';
