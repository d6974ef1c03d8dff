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

export interface LockOptions {
  readonly files: FilePort;
  readonly clock: Clock;
  /** What the others are told: "cluster init". */
  readonly command: string;
  readonly user: string;
}

/**
 * One writer per workspace: proper-lockfile, with the question whether the holder lives put to the kernel. A dead
 * holder's lock is taken over; of a living one it is said who it is and since when.
 * @throws WorkspaceError `workspace-locked`
 */
export async function lockWorkspace(layout: WorkspaceLayout, options: LockOptions): Promise<AsyncDisposable> {
  const { files, clock, command, user } = options;
  try {
    return await acquireProcessLock(files, layout.lock, { command, user, sinceMs: clock.nowMs() });
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'platform-already-running') throw error;
    const holder = holderSchema.safeParse(error.details).data;
    if (holder !== undefined) throw lockedBy(holder, layout, clock);
    throw new WorkspaceError('workspace-locked', `locking ${layout.root}: ${error.message}`);
  }
}

function lockedBy(holder: Holder, layout: WorkspaceLayout, clock: Clock): WorkspaceError {
  const { pid, about } = holder;
  const { command, user, sinceMs } = about;
  const age = clock.nowMs() - sinceMs;
  const past = age >= 0 ? `for ${formatDuration(age)}` : 'since a time in the future (a clock was set)';
  const who = pid === undefined ? user : `${user}, process ${pid}`;
  const since = new Date(sinceMs).toISOString();
  return new WorkspaceError(
    'workspace-locked',
    `locking ${layout.root}: \`${command}\` (${who}) holds ${layout.lock} ${past}, since ${since}`,
    { details: { command, user, pid, since, path: layout.lock } },
  );
}
