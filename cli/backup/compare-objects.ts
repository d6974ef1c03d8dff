import { CHANGED, resourceOf, type ObjectDigests } from '../../internal/backup/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { BackupCommandError } from './errors.ts';

/** Number of objects of a resource in a backup and in the cluster that was restored from it. All of them are equal. */
export interface ObjectComparison {
  readonly resource: string;
  readonly backup: number;
  readonly restored: number;
}

/** How an object of the restored cluster differs from the backup. */
export interface ObjectDifference {
  /** Its key in etcd. */
  readonly key: string;
  readonly difference: 'missing' | 'changed' | 'new';
}

/**
 * Resources that a restore deletes, or that Kubernetes changes by itself when nodes are missing. The objects of all others
 * must be equal.
 */
const VOLATILE_RESOURCES: ReadonlySet<string> = new Set([
  ...['minions', 'csinodes', 'masterleases', 'peerserverleases', 'leases', 'events', 'pods'],
  ...['replicasets', 'endpointslices'],
  ...['certificatesigningrequests', 'jobs', 'volumeattachments', 'controllerrevisions', 'services/endpoints'],
]);

/**
 * Objects that describe the first machine, the endpoint of the API servers and the files of the kubelet: a restore writes them again.
 */
const REWRITTEN: ReadonlySet<string> = new Set([
  '/registry/configmaps/kube-system/kubeadm-config',
  '/registry/configmaps/kube-system/kubelet-config',
  '/registry/configmaps/kube-system/kube-proxy',
]);

/** Differences that the message of an error names; its details have all of them. */
const NAMED = 10;

/**
 * Compares each object of Kubernetes by content, without those that change by themselves, and those that changed while a backup was
 * taken.
 * @throws BackupCommandError `backup-drill-differs`; `backup-drill-uncounted` for a backup without a list of objects
 */
export function verifyObjects(
  file: string,
  backup: ObjectDigests | undefined,
  restored: ObjectDigests | undefined,
): readonly ObjectComparison[] {
  if (backup === undefined || restored === undefined)
    throw new BackupCommandError('backup-drill-uncounted', `comparing ${file}: it has no list of objects`);
  const before = comparable(backup);
  const after = comparable(restored);
  const different = differencesOf(before, after);
  if (different.length === 0) return countsOf(before, after);
  const named = different.slice(0, NAMED).map(({ key, difference }) => `${printable(key)} ${difference}`);
  const rest = different.length > NAMED ? `; and ${different.length - NAMED} more` : '';
  throw new BackupCommandError(
    'backup-drill-differs',
    `comparing ${file} with the restored cluster: ${named.join('; ')}${rest}`,
    { details: { different } },
  );
}

function comparable(objects: ObjectDigests): ObjectDigests {
  return new Map(
    [...objects].filter(([key]) => !VOLATILE_RESOURCES.has(resourceOf(key)) && !REWRITTEN.has(key)),
  );
}

function differencesOf(backup: ObjectDigests, restored: ObjectDigests): readonly ObjectDifference[] {
  return [...new Set([...backup.keys(), ...restored.keys()])].toSorted().flatMap((key) => {
    const [before, after] = [backup.get(key), restored.get(key)];
    if (before === CHANGED || after === CHANGED) return [];
    if (before === after) return [];
    const difference = after === undefined ? 'missing' : before === undefined ? 'new' : 'changed';
    return [{ key, difference } as const];
  });
}

function countsOf(backup: ObjectDigests, restored: ObjectDigests): readonly ObjectComparison[] {
  const count = (objects: ObjectDigests, wanted: string): number =>
    [...objects.keys()].filter((key) => resourceOf(key) === wanted).length;
  return [...new Set([...backup.keys()].map(resourceOf))].toSorted().map((resource) => ({
    resource,
    backup: count(backup, resource),
    restored: count(restored, resource),
  }));
}
