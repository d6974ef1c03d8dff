import type { ClusterFacts } from './cluster-facts.ts';
import type { Layer } from './doctor-checks.ts';

/** A subject without a check. */
interface Unchecked {
  readonly layer: Layer;
  readonly what: string;
  readonly why: string;
}

/** What was not checked in this cluster. */
export function notCheckedIn({
  backups,
  local,
}: Pick<ClusterFacts, 'backups' | 'local'>): readonly Unchecked[] {
  if (local !== undefined) return [OTHER_NODES];
  const isScheduled = backups?.ok !== true || backups.value.schedule !== undefined;
  return isScheduled ? NOT_CHECKED : [...NOT_CHECKED, NO_SCHEDULE];
}

const NO_SCHEDULE: Unchecked = {
  layer: 'backups',
  what: 'backups',
  why: 'none is scheduled; `cluster backup schedule set` schedules them',
};

const OTHER_NODES: Unchecked = {
  layer: 'nodes',
  what: 'the other nodes, the records of the cluster and its workloads',
  why: 'the facts were collected on one machine; `cluster doctor` at a workstation asks the cluster',
};

/**
 * The subjects that `cluster doctor` cannot check. Its report lists them, so that nobody takes a clean result as a
 * result for these subjects.
 */
export const NOT_CHECKED: readonly Unchecked[] = [
  {
    layer: 'backups',
    what: 'backup files outside of the cluster',
    why: '`cluster backup ls DIRECTORY` and `cluster backup verify` check them',
  },
];
