import { verifyBackup, type BackupHeader } from '../../internal/backup/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { type Caller, readCaller, readSeenEpoch } from '../cluster/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import type { ProvedSnapshot } from './prove-snapshot.ts';
import { readRecoveryKey } from './recovery-key.ts';
import { saveProof } from './proof-file.ts';
import { withUnpackedBackup, type Proof } from './unpack-backup.ts';
import type { CommandContext } from '../app/command.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';

/** Flags of `cluster backup verify`. */
export interface BackupVerifyOptions {
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
}

/** A file that was proved. */
export interface ProvedBackup {
  readonly header: BackupHeader;
  readonly sha256: string;
  readonly proof: Proof;
}

/** `cluster backup verify`. */
export async function runBackupVerify(
  context: CommandContext,
  file: string,
  options: BackupVerifyOptions,
): Promise<void> {
  const { header, sha256, proof } = await proveBackup(context, file, options);
  context.host.result({ file, sha256, status: 'FILE-PROVED', proof, ...viewOf(header) }, () =>
    [renderHeader(header), renderProof('State', proof.state), renderProof('Kubernetes', proof.kubernetes)]
      .concat('FILE-PROVED: the file is complete, this key opens it, and both databases can be restored.')
      .join('\n'),
  );
}

/**
 * Verifies the file, decrypts it, restores both snapshots into empty data directories and compares them with what the control plane had.
 * The decrypted data is deleted afterwards. The result is saved beside the file, signed by the caller.
 */
export async function proveBackup(
  context: CommandContext,
  file: string,
  { recoveryKey, workDir }: BackupVerifyOptions,
): Promise<ProvedBackup> {
  const { host, signal, ports } = context;
  const caller = await readCaller(context);
  const { keyPem, clusterId, pubKey } = caller;
  const key = await readRecoveryKey(context, keyPem, recoveryKey);
  const trust = { owners: [pubKey], clusterId, epoch: await readKnownEpoch(context, caller) };
  const { header, sha256 } = await host.step('backup-verify-file', `Verifying ${file}`, () =>
    verifyBackup(new DiskStreams().readChunks(file, { signal }), trust),
  );
  return withUnpackedBackup(context, { file, key, workDir }, async (_, proof) => {
    const provedMs = Math.round(ports.clock.nowMs());
    await saveProof(ports.files, file, { keyPem, clusterId, sha256, provedMs }).catch((error: unknown) => {
      signal.throwIfAborted();
      host.warn('backup-proof-unsaved', `the proof of ${file} was not saved: ${describeError(error)}`);
    });
    return { header, sha256, proof };
  });
}

function renderProof(name: string, { revision, keys, isHashCompared }: ProvedSnapshot): string {
  const hash = isHashCompared
    ? 'same hash as on the control plane'
    : 'hash not comparable: etcd compacted its history while the backup was taken';
  return `${`${name} etcd:`.padEnd(16)} restored at revision ${revision}, ${keys} keys, ${hash}`;
}

/** The highest epoch of the cluster that the caller knows of. */
export async function readKnownEpoch(
  { ports: { files }, paths }: CommandContext,
  { curatorsPath }: Pick<Caller, 'curatorsPath'>,
): Promise<number> {
  const { init } = (await StateFile.read(files, layoutOf(paths.workspace))).value;
  return Math.max(Number(init?.result?.epoch ?? 1), await readSeenEpoch(files, curatorsPath));
}
