import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import type { Chunk } from './chunks.ts';
import { NodeStreamError } from './errors.ts';
import { streamOutput } from './stream-output.ts';

/**
 * Reads the audit log of the API server on this node, oldest line first. With `follow`, continues in the new
 * file when the API server rotates the log. Lines of rotated files are not part of the backlog.
 * @throws NodeStreamError `nodestream-audit-missing`
 */
export async function* readAuditLog(
  { commands, files }: { readonly commands: CommandRunner; readonly files: Pick<FilePort, 'stat'> },
  { backlog, follow }: { readonly backlog: number; readonly follow: boolean },
  signal: AbortSignal,
): AsyncGenerator<Chunk> {
  if ((await files.stat(PATHS.auditLog)) === undefined)
    throw new NodeStreamError('nodestream-audit-missing', `${PATHS.auditLog} not found`);
  const argv = ['tail', `--lines=${backlog}`, ...(follow ? ['-F'] : []), PATHS.auditLog] as const;
  yield* streamOutput(commands, { argv: [...argv] as [string, ...string[]], backlog }, signal);
}
