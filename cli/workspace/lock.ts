import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../internal/clock/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { formatDuration } from '../host/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';
import { lifeOf, ownIdentity } from '../../internal/platform/index.ts';

const MAX_LOCK_BYTES = 8192;
const MAX_TRIES = 8;

const holderSchema = z.object({
  id: z.uuid(),
  command: z.string(),
  user: z.string(),
  sinceMs: z.number(),
  process: z
    .object({ pid: z.number(), startTicks: z.string(), bootId: z.string(), machineId: z.string() })
    .optional(),
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
 * One writer per workspace. The lock is a file that is created exclusively and says who holds it; whether the holder
 * lives is asked of the kernel (process id, start time, boot), never of a file's time: clocks lie. A dead holder's
 * lock is taken over, a living one's is reported.
 * @throws WorkspaceError `workspace-locked`
 */
export async function lockWorkspace(layout: WorkspaceLayout, options: LockOptions): Promise<AsyncDisposable> {
  const { files, clock, command, user } = options;
  const process = await ownIdentity(files);
  const own: Holder = {
    id: randomUUID(),
    command,
    user,
    sinceMs: clock.nowMs(),
    ...(process === undefined ? {} : { process }),
  };
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (await files.createExclusive(layout.lock, `${JSON.stringify(own)}\n`))
      return release(layout, files, own);
    const holder = await readHolder(files, layout.lock);
    if (holder === 'gone') continue;
    const life = holder?.process === undefined ? 'unknown' : await lifeOf(files, holder.process);
    if (life !== 'dead') throw lockedBy(holder, layout, clock);
    await removeDead(files, layout, holder);
  }
  throw new WorkspaceError(
    'workspace-locked',
    `locking ${layout.root}: many runs start and end here at once`,
  );
}

/**
 * Moves the file away before it looks again: what was judged dead may have been replaced by a living holder in the
 * meantime, who gets it back.
 */
async function removeDead(files: FilePort, layout: WorkspaceLayout, dead: Holder | undefined): Promise<void> {
  const aside = `${layout.lock}.${randomUUID()}`;
  try {
    await files.rename(layout.lock, aside);
  } catch (error) {
    if ((await files.stat(layout.lock)) === undefined) return; // somebody else was faster
    throw error;
  }
  const moved = await readHolder(files, aside);
  if (moved !== 'gone' && moved?.id !== dead?.id) {
    await files.createExclusive(layout.lock, `${JSON.stringify(moved)}\n`);
  }
  await files.remove(aside);
}

function release(layout: WorkspaceLayout, files: FilePort, own: Holder): AsyncDisposable {
  return {
    [Symbol.asyncDispose]: async () => {
      const holder = await readHolder(files, layout.lock);
      if (holder !== 'gone' && holder?.id === own.id) await files.remove(layout.lock);
    },
  };
}

/** The holder; undefined when the file says nothing that we understand. */
async function readHolder(files: FilePort, path: string): Promise<Holder | undefined | 'gone'> {
  const raw = await files.read(path, MAX_LOCK_BYTES);
  if (raw === undefined) return 'gone';
  try {
    return holderSchema.safeParse(JSON.parse(Buffer.from(raw).toString('utf8'))).data;
  } catch {
    return undefined; // not ours to interpret; the caller reports the file
  }
}

function lockedBy(holder: Holder | undefined, layout: WorkspaceLayout, clock: Clock): WorkspaceError {
  if (holder === undefined) {
    return new WorkspaceError(
      'workspace-locked',
      `locking ${layout.root}: ${layout.lock} is there and does not say whose it is`,
    );
  }
  const { command, user, sinceMs, process } = holder;
  const age = clock.nowMs() - sinceMs;
  const since = age >= 0 ? `for ${formatDuration(age)}` : 'since a time in the future (a clock was set)';
  const who = process === undefined ? user : `${user}, process ${process.pid}`;
  return new WorkspaceError(
    'workspace-locked',
    `locking ${layout.root}: \`${command}\` (${who}) holds ${layout.lock} ${since}, since ${new Date(sinceMs).toISOString()}`,
    {
      details: {
        command,
        user,
        pid: process?.pid,
        since: new Date(sinceMs).toISOString(),
        path: layout.lock,
      },
    },
  );
}
