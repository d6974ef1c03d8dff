import { defineErrors, errorClass } from '../errors/index.ts';

export const fileErrors = defineErrors({
  'file-no-space': {
    fault: 'system',
    exit: 'diskFull',
    retryable: true,
    meaning: 'The disk or its quota is full.',
    fix: 'Free space on the file system named in the message, then run the same command again.',
  },
  'file-read-only': {
    fault: 'system',
    exit: 'readOnly',
    retryable: true,
    meaning: 'The file system is mounted read-only.',
    fix: 'Look for disk errors in the kernel log, remount the file system writable, then run the same command again.',
  },
  'file-permission': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'This user may not do that with this path.',
    fix: 'Run as the owner of the path, or correct its owner and mode.',
  },
  'file-too-large': {
    fault: 'peer',
    exit: 'precondition',
    retryable: false,
    meaning: 'A file is larger than anything that could be right; it was not read.',
    fix: 'Look at the file named in the message: it is not what its name says.',
  },
  'file-io': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'A file operation failed: the path does not lead to what is needed, or the disk has an error.',
    fix: 'Correct the path that the message names: each directory on the way must exist, and a file is no directory. For EIO look into the kernel log.',
  },
});

export type FileErrorCode = keyof typeof fileErrors;

export class FileError extends errorClass(fileErrors) {}

/** Translates an errno once, at the port. */
export function fileError(doing: string, error: unknown): FileError {
  if (error instanceof FileError) return error;
  const errno = (error as NodeJS.ErrnoException).code;
  const code: FileErrorCode =
    errno === 'ENOSPC' || errno === 'EDQUOT'
      ? 'file-no-space'
      : errno === 'EROFS'
        ? 'file-read-only'
        : errno === 'EACCES' || errno === 'EPERM'
          ? 'file-permission'
          : 'file-io';
  return new FileError(code, doing, { cause: error, details: { errno } });
}
