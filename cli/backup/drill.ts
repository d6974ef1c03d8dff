import { join } from 'node:path';
import type { ObjectDigests } from '../../internal/backup/index.ts';
import { KubeClient, listReleases, type HelmRelease } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readKubeAccess } from '../cluster/index.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { verifyCharts } from './compare-charts.ts';
import { verifyObjects, type ObjectComparison } from './compare-objects.ts';
import { createBackup } from './create-backup.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { restoreCluster, type RestoredCluster, type RestoreOptions } from './restore-backup.ts';
import { readObjects } from './unpack-backup.ts';

/** Result of a drill. */
export interface DrillResult extends RestoredCluster {
  /** Every resource whose objects were compared; all are equal. */
  readonly compared: readonly ObjectComparison[];
  /** The releases of charts, as in the backup. */
  readonly charts: readonly HelmRelease[];
}

/**
 * Restores a backup onto a machine, and compares each object and the releases of charts with the backup. The restored cluster
 * lists its objects by taking a backup of its own, so the drill also proves that it can be backed up again.
 * @param context has the workspace of the restored cluster
 * @throws BackupCommandError `backup-drill-differs`, `backup-drill-uncounted`
 */
export async function restoreAndCompare(
  context: CommandContext,
  file: string,
  at: Pick<RestoreOptions, 'recoveryKey' | 'workDir'> & {
    readonly node: string;
    readonly fingerprint: string;
  },
): Promise<DrillResult> {
  const { root } = layoutOf(context.paths.workspace);
  const rest = {
    ...{ acceptOlderEpoch: false, charts: { kind: 'none' } as const },
    ...{ ownerKey: undefined, keepWorkers: [], removedMachines: [], yes: true }, // the workspace is that of the drill
  } as const;
  const { keyPem } = await readOwnerKey(context, layoutOf(root));
  const read = async (path: string, recoveryKey: string | undefined): Promise<ObjectDigests | undefined> =>
    readObjects(context, path, await readRecoveryKey(context, keyPem, recoveryKey));
  const before = await read(file, at.recoveryKey);
  const restored = await restoreCluster(context, file, { ...at, ...rest });
  const own = join(root, 'drill.backup');
  await createBackup(context, { to: own, recipients: [] });
  const compared = verifyObjects(file, before, await read(own, undefined));
  using client = new KubeClient(await readKubeAccess(context.ports.files, layoutOf(root)), context.ports);
  const charts = verifyCharts(file, before ?? new Map(), await listReleases(client, context.signal));
  return { ...restored, compared, charts };
}
