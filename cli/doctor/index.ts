/**
 * `cluster doctor`: collects the facts of the cluster from curators, API servers, kubelets and the workspace, and judges them with
 * the checks of internal/doctor. Changes nothing in the cluster. `--save-facts` writes the facts, `--facts` judges such a file.
 */
export { collectFacts } from './collect-facts.ts';
export {
  chooseBackupNode,
  requireSafeChange,
  requireSoundMachine,
  type GuardedChange,
} from './require-safe-change.ts';
export { metricsFrom, samplesFrom, type Sample } from './parse-metrics.ts';
export { plain } from './read-records.ts';
export { judgeFacts, runDoctor, watchDoctor, type DoctorOptions } from './run-doctor.ts';
