import { verifyBackup } from '../../internal/backup/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { readKnownEpoch } from './known-epoch.ts';
import type { ProvedSnapshot } from './prove-snapshot.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { withUnpackedBackup } from './unpack-backup.ts';

/** Flags of `cluster backup verify`. */
export interface BackupVerifyOptions {
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
}

/**
 * `cluster backup verify`: verifies the file, decrypts it, restores both snapshots into empty data directories and compares
 * them with what the control plane had. The decrypted data is deleted afterwards.
 */
export async function runBackupVerify(
  context: CommandContext,
  file: string,
  { recoveryKey, workDir }: BackupVerifyOptions,
): Promise<void> {
  const { host, signal } = context;
  const caller = await readCaller(context);
  const key = await readRecoveryKey(context, caller.keyPem, recoveryKey);
  const trust = {
    owners: [caller.pubKey],
    clusterId: caller.clusterId,
    epoch: await readKnownEpoch(context, caller),
  };
  const { header, sha256 } = await host.step('backup-verify-file', `Verifying ${file}`, () =>
    verifyBackup(new DiskStreams().readChunks(file, { signal }), trust),
  );
  await withUnpackedBackup(context, { file, key, workDir }, async (_, proof) => {
    host.result({ file, sha256, status: 'FILE-PROVED', proof, ...viewOf(header) }, () =>
      [renderHeader(header), renderProof('State', proof.state), renderProof('Kubernetes', proof.kubernetes)]
        .concat('FILE-PROVED: the file is complete, this key opens it, and both databases can be restored.')
        .join('\n'),
    );
    return Promise.resolve();
  });
}

function renderProof(name: string, { revision, keys, isHashCompared }: ProvedSnapshot): string {
  const hash = isHashCompared
    ? 'same hash as on the control plane'
    : 'hash not comparable: etcd compacted its history while the backup was taken';
  return `${`${name} etcd:`.padEnd(16)} restored at revision ${revision}, ${keys} keys, ${hash}`;
}
