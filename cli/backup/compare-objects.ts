import { BackupCommandError } from './errors.ts';

type Counts = Readonly<Record<string, number>>;

/** Number of objects of a resource in a backup and in the cluster that was restored from it. */
export interface ObjectComparison {
  readonly resource: string;
  readonly backup: number;
  readonly restored: number;
}

/**
 * Resources that a restore deletes, or whose number Kubernetes changes by itself when nodes are missing. All others must be equal.
 */
const VOLATILE_RESOURCES: readonly string[] = [
  ...['minions', 'csinodes', 'masterleases', 'peerserverleases', 'leases', 'events', 'pods'],
  ...['replicasets', 'endpointslices'],
  ...['certificatesigningrequests', 'jobs', 'volumeattachments', 'controllerrevisions', 'services/endpoints'],
];

/**
 * Compares the objects of Kubernetes by resource, without those that change by themselves.
 * @throws BackupCommandError `backup-drill-differs`; `backup-drill-uncounted` for a backup of format 1
 */
export function verifyObjects(
  file: string,
  backup: Counts | undefined,
  restored: Counts | undefined,
): readonly ObjectComparison[] {
  if (backup === undefined || restored === undefined)
    throw new BackupCommandError('backup-drill-uncounted', `comparing ${file}: it has no counts of objects`);
  const compared = compareObjects(backup, restored);
  const different = compared.filter((each) => each.backup !== each.restored);
  if (different.length === 0) return compared;
  const texts = different.map(
    (each) => `${each.resource} ${each.backup} in the backup, ${each.restored} restored`,
  );
  throw new BackupCommandError(
    'backup-drill-differs',
    `comparing ${file} with the restored cluster: ${texts.join('; ')}`,
    { details: { different } },
  );
}

function compareObjects(backup: Counts, restored: Counts): readonly ObjectComparison[] {
  return [...new Set([...Object.keys(backup), ...Object.keys(restored)])]
    .filter((resource) => !VOLATILE_RESOURCES.includes(resource))
    .toSorted()
    .map((resource) => ({
      resource,
      backup: backup[resource] ?? 0,
      restored: restored[resource] ?? 0,
    }));
}
