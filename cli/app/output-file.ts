import type { FilePort, OutputPort } from '../../internal/file/index.ts';
import { AppError } from './errors.ts';

/** Larger than anything that a command writes with `writeOutput()`: an audit log. */
const MAX_EARLIER_BYTES = 256 * 1024 * 1024;

type Files = OutputPort & Pick<FilePort, 'createExclusive' | 'read' | 'stat' | 'writeAtomic'>;

/** A file that the user names for the output of a command. */
export interface OutputFile {
  readonly path: string;
  /** Permission bits; default: 0600. */
  readonly mode?: number;
  /**
   * Whether an earlier run of the command has written this text. Such a file is replaced, as the result of each run differs.
   * Default: none is.
   */
  readonly isEarlier?: (text: string) => boolean;
}

/**
 * Refuses a file that `writeOutput()` would refuse, before a command changes anything or takes its time.
 * @throws AppError `app-file-exists`, FileError
 */
export async function checkOutput(files: Files, file: OutputFile): Promise<void> {
  const { kind, path } = await files.resolveTarget(file.path);
  if (kind === 'file') verifyReplaceable(await readEarlier(files, path), file);
}

/**
 * Writes the output of a command, and follows symbolic links. A file with the same content stays, so that a command can be
 * repeated. Another file is not replaced unless it is empty, such as that of mktemp, or `isEarlier`. A device or a FIFO is
 * written into. @throws AppError `app-file-exists`, FileError
 */
export async function writeOutput(files: Files, file: OutputFile, data: Uint8Array | string): Promise<void> {
  const { kind, path } = await files.resolveTarget(file.path);
  if (kind === 'stream') return files.writeInto(path, data);
  const options = { mode: file.mode ?? 0o600 };
  if (kind === 'none' && (await files.createExclusive(path, data, options))) return;
  const earlier = await readEarlier(files, path);
  if (earlier !== undefined && Buffer.from(data).equals(earlier)) return;
  verifyReplaceable(earlier, file);
  await files.writeAtomic(path, data, options);
}

/** Undefined for a file that is too large to come from an earlier run. */
async function readEarlier(files: Files, path: string): Promise<Uint8Array | undefined> {
  const { sizeBytes = 0 } = (await files.stat(path)) ?? {};
  return sizeBytes > MAX_EARLIER_BYTES ? undefined : files.read(path, MAX_EARLIER_BYTES);
}

/** @throws AppError `app-file-exists` */
function verifyReplaceable(earlier: Uint8Array | undefined, { path, isEarlier }: OutputFile): void {
  if (earlier?.length === 0) return;
  if (earlier !== undefined && isEarlier?.(Buffer.from(earlier).toString()) === true) return;
  throw new AppError('app-file-exists', `${path} exists, with other content`);
}
