import { untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';

const LOOK_MS = 2_000;

/**
 * Resolves when the file that an error names (`details.path`) is another than when it was named: it was put back. Only
 * the signal ends the wait for an error that names none.
 */
export async function untilFileChanges(
  ports: { readonly files: Pick<FilePort, 'stat'>; readonly clock: Clock; readonly log: Logger },
  error: CodedError,
  signal: AbortSignal,
): Promise<void> {
  const { path } = error.details;
  if (typeof path !== 'string') return untilAborted(signal);
  const before = await look(ports.files, path);
  do await ports.clock.sleep(LOOK_MS, signal);
  while ((await look(ports.files, path)) === before);
  ports.log.info('the file that was missed is another now: beginning anew', { path });
}

async function look(files: Pick<FilePort, 'stat'>, path: string): Promise<string> {
  return JSON.stringify((await files.stat(path)) ?? 'gone');
}
