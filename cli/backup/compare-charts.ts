import type { ObjectDigests } from '../../internal/backup/index.ts';
import type { HelmRelease } from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { BackupCommandError } from './errors.ts';

/** The key in etcd under which Helm keeps each revision of a release. */
const RELEASE = /^\/registry\/secrets\/([^/]+)\/sh\.helm\.release\.v1\.(.+)\.v([0-9]+)$/;

/**
 * Requires that Kubernetes reads the same releases of charts from the restored cluster that the backup has, each in the same
 * revision. This also shows that the restored cluster can decrypt its Secrets.
 * @throws BackupCommandError `backup-drill-differs`
 */
export function verifyCharts(
  file: string,
  backup: ObjectDigests,
  restored: readonly HelmRelease[],
): readonly HelmRelease[] {
  const before = revisionsOf(
    [...backup.keys()].flatMap((key) => {
      const [, namespace = '', name = '', revision] = RELEASE.exec(key) ?? [];
      return revision === undefined ? [] : [{ namespace, name, revision: Number(revision) }];
    }),
  );
  const after = revisionsOf(restored);
  const different = [...new Set([...before.keys(), ...after.keys()])]
    .toSorted()
    .filter((release) => before.get(release) !== after.get(release));
  if (different.length === 0) return restored;
  const texts = different.map(
    (release) =>
      `${printable(release)} ${before.get(release) ?? 'missing'} in the backup, ${after.get(release) ?? 'missing'} restored`,
  );
  throw new BackupCommandError(
    'backup-drill-differs',
    `comparing the revisions of charts in ${file} with the restored cluster: ${texts.join('; ')}`,
  );
}

/** The newest revision of each release, by namespace and name. */
function revisionsOf(
  releases: readonly { readonly namespace: string; readonly name: string; readonly revision: number }[],
): ReadonlyMap<string, number> {
  const revisions = new Map<string, number>();
  for (const { namespace, name, revision } of releases) {
    const key = `${namespace}/${name}`;
    revisions.set(key, Math.max(revision, revisions.get(key) ?? 0));
  }
  return revisions;
}
