import { z } from 'zod';
import { formatDuration, type Clock } from '../../internal/clock/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { acquireProcessLock, PlatformError } from '../../internal/platform/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';

const holderSchema = z.object({
  pid: z.number().optional(),
  about: z.object({ command: z.string(), user: z.string(), sinceMs: z.number() }),
});
type Holder = z.output<typeof holderSchema>;

/** The command and process that lock the workspace. */
export interface LockOptions {
  readonly files: FilePort;
  readonly clock: Clock;
  /** Shown to other processes that find the workspace locked: "cluster init". */
  readonly command: string;
  readonly user: string;
}

/**
 * Locks the workspace for one writer. The lock of a process that no longer exists is taken over.
 * @throws WorkspaceError `workspace-locked` with the holder and the time
 */
export async function lockWorkspace(layout: WorkspaceLayout, options: LockOptions): Promise<AsyncDisposable> {
  const { files, clock, command, user } = options;
  try {
    return await acquireProcessLock(files, layout.lock, { command, user, sinceMs: clock.nowMs() });
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'platform-already-running') throw error;
    const holder = holderSchema.safeParse(error.details).data;
    if (holder !== undefined) throw lockedBy(holder, layout, clock);
    throw new WorkspaceError('workspace-locked', `workspace ${layout.root} is locked: ${error.message}`);
  }
}

function lockedBy(holder: Holder, layout: WorkspaceLayout, clock: Clock): WorkspaceError {
  const { pid, about } = holder;
  const { command, user, sinceMs } = about;
  const age = clock.nowMs() - sinceMs;
  const heldFor = age >= 0 ? `for ${formatDuration(age)}` : 'since a time in the future (a clock was set)';
  const who = pid === undefined ? user : `${user}, process ${pid}`;
  const since = new Date(sinceMs).toISOString();
  return new WorkspaceError(
    'workspace-locked',
    `workspace ${layout.root} is locked: \`${command}\` (${who}) holds ${layout.lock} ${heldFor}, since ${since}`,
    { details: { command, user, pid, since, path: layout.lock } },
  );
}
