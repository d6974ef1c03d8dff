import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';

const CHECK_MS = 2_000;

/**
 * Resolves when the file that an error names (`details.path`) was changed or restored. For an error without a
 * file, only the signal ends the wait.
 */
export async function untilFileChanges(
  ports: { readonly files: Pick<FilePort, 'stat'>; readonly clock: Clock; readonly log: Logger },
  error: CodedError,
  signal: AbortSignal,
): Promise<void> {
  const { path } = error.details;
  if (typeof path !== 'string') return untilAborted(signal);
  const before = await describeFile(ports.files, path);
  do await ports.clock.sleep(CHECK_MS, signal);
  while ((await describeFile(ports.files, path)) === before);
  ports.log.info('file changed, retrying', { path });
}

async function describeFile(files: Pick<FilePort, 'stat'>, path: string): Promise<string> {
  return JSON.stringify((await files.stat(path)) ?? 'missing');
}
