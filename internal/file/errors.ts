import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** The errors of file operations. */
export const fileErrors = defineErrors({
  'file-no-space': retryable.system.diskFull(
    'The disk or its quota is full.',
    'Free space on the file system named in the message, then run the same command again.',
  ),
  'file-read-only': retryable.system.readOnly(
    'The file system is mounted read-only.',
    'Look for disk errors with `dmesg`, remount the file system writable, then run the same command again.',
  ),
  'file-permission': retryable.operator.precondition(
    'The user that runs this program lacks the permission for a file or directory.',
    'Run the command as the owner of the path named in the message, or correct owner and mode of the path.',
  ),
  'file-too-large': fault.peer.precondition(
    'A file is larger than the limit for files of its kind. It was not read.',
    'Check the content of the file named in the message: another file may have been put in its place.',
  ),
  'file-io': retryable.system.precondition(
    'A file operation failed: part of the path does not exist or is not a directory, or the disk has an error.',
    'Check that every directory of the path named in the message exists and is a directory. For EIO, look for disk errors with `dmesg`.',
  ),
});

/** A code of this directory. */
type FileErrorCode = keyof typeof fileErrors;

/** A file operation failed. `details.errno` has the error of the system call. */
export class FileError extends errorClass(fileErrors) {}

const CODES: Readonly<Record<string, FileErrorCode>> = {
  ENOSPC: 'file-no-space',
  EDQUOT: 'file-no-space',
  EROFS: 'file-read-only',
  EACCES: 'file-permission',
  EPERM: 'file-permission',
};

/**
 * Runs the work and turns its error into a `FileError` with `details.errno`. `doing` is the start of the
 * message.
 */
export async function attempt<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FileError) throw error;
    const errno = (error as NodeJS.ErrnoException).code;
    throw new FileError(CODES[errno ?? ''] ?? 'file-io', doing, { cause: error, details: { errno } });
  }
}
