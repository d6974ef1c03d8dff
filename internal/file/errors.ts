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
  'file-missing': retryable.system.precondition(
    'A file or directory that the operation needs does not exist.',
    'Check the path named in the message: each of its directories must exist.',
  ),
  'file-wrong-kind': fault.operator.precondition(
    'A directory, device, pipe or socket is where a file is needed, or a file is where a directory is needed.',
    'Check the path named in the message, and name another path.',
  ),
  'file-io': retryable.system.precondition(
    'A file operation failed; the message has the error of the operating system.',
    'Look for errors of the disk or of the file system with `dmesg`.',
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
  ENOENT: 'file-missing',
  EISDIR: 'file-wrong-kind',
  ENOTDIR: 'file-wrong-kind',
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
    throw new FileError(CODES[errno ?? ''] ?? 'file-io', doing, {
      cause: reasonOf(error),
      details: { errno },
    });
  }
}

/**
 * Returns the reason of a failed system call: "ENOENT: no such file or directory". Omits the call and its paths,
 * because a path may be the path of a temporary file.
 */
function reasonOf(error: unknown): unknown {
  if (!(error instanceof Error) || (error as NodeJS.ErrnoException).syscall === undefined) return error;
  const { code, syscall } = error as NodeJS.ErrnoException;
  const at = error.message.indexOf(`, ${syscall}`);
  return at < 0 ? error : Object.assign(new Error(error.message.slice(0, at)), { code });
}
