import { describeError } from '../../../internal/errors/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { isLockedDiskError, isLastingRefusal } from '../../disk/index.ts';

const DIRECTORY = '/run/cluster/locked-disk';

/** Paths in memory (tmpfs) for the files of a machine while its state disk is locked. */
export const LOCKED_PATHS = {
  directory: DIRECTORY,
  machineKey: `${DIRECTORY}/key.pem`,
  fingerprint: `${DIRECTORY}/fingerprint`,
  keySecret: `${DIRECTORY}/attestation-key.sealed`,
  /** The named pipe for the code, where the console has a login. */
  code: `${DIRECTORY}/code`,
  /**
   * Exists while the agent waits for its cluster share, and the cluster has not refused it: an image that is not confirmed is not given up
   * meanwhile (internal/image/slot-units.ts).
   */
  awaitsShare: `${DIRECTORY}/awaits-share`,
} as const;

/**
 * Notes for the units of an image whether the cluster may still give the share that this machine waits for: not after an error which says
 * that the cluster has refused it, or that the TPM releases no share any more.
 */
export async function noteWait(files: FilePort, error: unknown): Promise<void> {
  if (isLastingRefusal(error) || isLockedDiskError(error)) await files.remove(LOCKED_PATHS.awaitsShare);
  else await files.writeAtomic(LOCKED_PATHS.awaitsShare, '');
}

/**
 * Creates the directory of `LOCKED_PATHS` for the time of `use`, and deletes it afterwards: who writes into a pipe that nobody reads
 * would wait for ever.
 */
export async function withLockedFiles<T>(
  { files, log }: { readonly files: FilePort; readonly log: Logger },
  use: () => Promise<T>,
): Promise<T> {
  await files.makeDirectory(LOCKED_PATHS.directory);
  try {
    return await use();
  } finally {
    await files.remove(LOCKED_PATHS.directory).catch((error: unknown) => {
      log.warn('files of the locked disk not deleted', { error: describeError(error) });
    });
  }
}
