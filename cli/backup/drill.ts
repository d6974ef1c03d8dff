import { join } from 'node:path';
import type { CommandContext } from '../app/command.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { verifyObjects, type ObjectComparison } from './compare-objects.ts';
import { createBackup } from './create-backup.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { restoreCluster, type RestoredCluster } from './restore-backup.ts';
import { readFacts } from './unpack-backup.ts';

/** Result of a drill. */
export interface DrillResult extends Omit<RestoredCluster, 'objects'> {
  /** Every resource whose number of objects was compared; all are equal. */
  readonly compared: readonly ObjectComparison[];
}

/**
 * Restores a backup onto a machine, and compares the number of objects by resource with those in the backup. The restored cluster
 * counts its objects by taking a backup of its own, so the drill also proves that it can be backed up again.
 * @param context has the workspace of the restored cluster
 * @throws BackupCommandError `backup-drill-differs`, `backup-drill-uncounted`
 */
export async function restoreAndCompare(
  context: CommandContext,
  file: string,
  at: { readonly node: string; readonly fingerprint: string; readonly recoveryKey: string | undefined },
): Promise<DrillResult> {
  const { root } = layoutOf(context.paths.workspace);
  const rest = { workDir: undefined, acceptOlderEpoch: false, charts: { kind: 'none' } } as const;
  const { objects, ...restored } = await restoreCluster(context, file, { ...at, ...rest });
  const own = join(root, 'drill.backup');
  const { keyPem } = await readOwnerKey(context, layoutOf(root));
  await createBackup(context, { to: own, recipients: [], node: undefined });
  const facts = await readFacts(context, own, await readRecoveryKey(context, keyPem, undefined));
  const compared = verifyObjects(file, objects, facts.kubernetes.objects);
  return { ...restored, compared };
}
