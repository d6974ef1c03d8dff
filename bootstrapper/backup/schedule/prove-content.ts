import { ObjectCounts, type EtcdFacts } from '../../../internal/backup/index.ts';
import type { BackupEtcd } from '../stream-backup.ts';
import { BackupTaskError } from '../errors.ts';

const CALL_MS = 5 * 60_000;

/**
 * Compares a restored etcd with what the control plane had when it took the backup: the hash of all keys and values, and the number of
 * objects of each resource.
 * @param restored an etcd that runs on the restored snapshot
 * @throws BackupTaskError `backup-node-incomparable` if etcd compacted its history meanwhile; `backup-node-unproved` if they differ
 */
export async function proveContent(
  name: string,
  restored: { keys: BackupEtcd['keys']; maintenance: Pick<BackupEtcd['maintenance'], 'hash'> },
  facts: EtcdFacts,
  signal: AbortSignal,
): Promise<void> {
  if (facts.hash === undefined)
    throw new BackupTaskError(
      'backup-node-incomparable',
      `proving the ${name} snapshot: etcd compacted its history while the backup was taken`,
    );
  const revision = BigInt(facts.revision);
  const { hash } = await restored.maintenance.hash(revision, { signal, timeoutMs: CALL_MS });
  const unproved = (why: string): BackupTaskError =>
    new BackupTaskError('backup-node-unproved', `proving the ${name} snapshot: ${why}`);
  if (hash !== facts.hash)
    throw unproved(`hash ${hash} at revision ${facts.revision}, the cluster had ${facts.hash}`);
  const counts = new ObjectCounts();
  for await (const keys of restored.keys('/', revision, { signal, timeoutMs: CALL_MS })) counts.add(keys);
  const expected = facts.objects ?? {};
  const found = counts.byResource;
  const differs = [...new Set([...Object.keys(expected), ...Object.keys(found)])].find(
    (resource) => expected[resource] !== found[resource],
  );
  if (differs !== undefined)
    throw unproved(`${found[differs] ?? 0} objects of ${differs}, the cluster had ${expected[differs] ?? 0}`);
}
