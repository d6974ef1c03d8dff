import { randomUUID } from 'node:crypto';
import { lock } from 'proper-lockfile';
import type { FilePort } from '../file/index.ts';
import { PlatformError } from './errors.ts';
import { removeStaleLock, LockDirectory, readHolderText } from './lock-directory.ts';
import { processStatus, currentProcessIdentity, type ProcessIdentity } from './process-identity.ts';

const MAX_TRIES = 8;
/** The largest delay of a timer: proper-lockfile touches its lock at half of it. */
const NEVER_STALE_MS = 2 ** 31 - 1;

/**
 * One process of a kind at a time. The lock is proper-lockfile's; whether its holder lives is asked of the kernel
 * (process id, start time, boot id), never of a file's time: a clock that was set must not let a second one in, nor keep
 * anybody out. A dead holder's lock is taken over, a living one's is reported.
 * @param path of the lock's directory; what lies beside it under the same name and a dot is the lock's own
 * @param about what others are told of the holder; JSON
 * @throws PlatformError `platform-already-running` with the holder's process id and what it says of itself
 */
export async function acquireProcessLock(
  files: FilePort,
  path: string,
  about: Readonly<Record<string, string | number>> = {},
): Promise<AsyncDisposable> {
  const process = await currentProcessIdentity(files);
  const holder = JSON.stringify({ id: randomUUID(), about, ...(process === undefined ? {} : { process }) });
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const release = await tryLock(new LockDirectory(files, path, holder));
    if (release !== undefined) return { [Symbol.asyncDispose]: () => release() };
    const said = await readHolderText(files, path);
    if (said.kind === 'gone') continue;
    const other = said.kind === 'text' ? parseHolder(said.text) : undefined;
    const life = other?.process === undefined ? 'unknown' : await processStatus(files, other.process);
    if (said.kind !== 'text' || other === undefined || life !== 'dead') throw heldBy(path, other);
    await removeStaleLock(files, path, { id: other.id, text: said.text });
  }
  throw new PlatformError(
    'platform-already-running',
    `locking ${path}: many processes start and end here at once`,
  );
}

type Release = () => Promise<void>;

/** undefined when somebody holds it. */
async function tryLock(folder: LockDirectory): Promise<Release | undefined> {
  try {
    // A name of its own for each try: proper-lockfile keeps one record a name, and another run's is not ours to end.
    return await lock(`${folder.path}#${randomUUID()}`, {
      realpath: false,
      lockfilePath: folder.path,
      stale: NEVER_STALE_MS,
      fs: folder,
      // Only a file time can "compromise" the lock, and those are not trusted here.
      onCompromised: () => undefined,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined;
    throw new PlatformError('platform-lock-failed', `locking ${folder.path}`, { cause: error });
  }
}

function heldBy(path: string, holder: Holder | undefined): PlatformError {
  const pid = holder?.process?.pid;
  const who = pid === undefined ? 'it is there and does not say whose it is' : `process ${pid} holds it`;
  return new PlatformError('platform-already-running', `locking ${path}: ${who}`, {
    details: { pid, about: holder?.about },
  });
}

interface Holder {
  readonly id: string;
  readonly about: unknown;
  readonly process: ProcessIdentity | undefined;
}

/** undefined when it is not ours to interpret. */
function parseHolder(text: string): Holder | undefined {
  try {
    const { id, about, process } = JSON.parse(text) as Partial<Holder>;
    if (typeof id !== 'string' || !/^[0-9a-f-]{36}$/.test(id)) return undefined;
    return { id, about, process: isIdentity(process) ? process : undefined };
  } catch {
    return undefined;
  }
}

function isIdentity(value: Partial<ProcessIdentity> | undefined): value is ProcessIdentity {
  return (
    typeof value?.pid === 'number' &&
    typeof value.startTicks === 'string' &&
    typeof value.bootId === 'string' &&
    typeof value.machineId === 'string'
  );
}
