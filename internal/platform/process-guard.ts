import { lock } from 'proper-lockfile';
import { describeError } from '../errors/index.ts';
import type { FilePort } from '../file/index.ts';
import { PlatformError } from './errors.ts';
import { lifeOf, ownIdentity, type ProcessIdentity } from './process-identity.ts';

const MAX_OWNER_BYTES = 8192;
/** The largest delay of a timer: the age of a lock never decides by itself. */
const NEVER_STALE_MS = 2 ** 31 - 1;

/**
 * One process of a kind per machine. The lock is proper-lockfile's folder; whether its holder lives is asked of the
 * kernel (process id, start time, boot id), never of a file's time: a clock that was set must not let a second one in.
 * @param path without an ending; `.lock` and `.owner` are put beside it
 * @throws PlatformError `process-guard-held` with the holder's process id
 */
export async function guardProcess(files: FilePort, path: string): Promise<AsyncDisposable> {
  const own = await ownIdentity(files);
  // Before proper-lockfile looks at the time of the folder: an old one may belong to a living process.
  await refuseLiving(files, path);
  const release = (await tryLock(path)) ?? (await takeOver(files, path));
  await files.writeAtomic(`${path}.owner`, JSON.stringify(own ?? {}));
  return { [Symbol.asyncDispose]: () => release() };
}

type Release = () => Promise<void>;

/** undefined when somebody holds it. */
async function tryLock(path: string): Promise<Release | undefined> {
  try {
    return await lock(path, {
      realpath: false,
      lockfilePath: `${path}.lock`,
      stale: NEVER_STALE_MS,
      // Only a file time can "compromise" the lock, and those are not trusted here.
      onCompromised: () => undefined,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined;
    throw new PlatformError('process-guard-failed', `locking ${path}`, { cause: error });
  }
}

async function refuseLiving(files: FilePort, path: string): Promise<void> {
  if ((await files.stat(`${path}.lock`)) === undefined) return;
  const holder = await readOwner(files, path);
  if (holder === undefined || (await lifeOf(files, holder)) === 'dead') return;
  throw new PlatformError('process-guard-held', `locking ${path}: process ${holder.pid} holds it`, {
    details: { pid: holder.pid },
  });
}

/** A dead holder's lock is moved aside, so that of two who judged it dead one wins. */
async function takeOver(files: FilePort, path: string): Promise<Release> {
  await refuseLiving(files, path);
  await files.rename(`${path}.lock`, `${path}.dead`).catch((error: unknown) => {
    throw new PlatformError('process-guard-held', `taking over ${path}: ${describeError(error)}`);
  });
  await files.remove(`${path}.dead`);
  const release = await tryLock(path);
  if (release !== undefined) return release;
  throw new PlatformError('process-guard-held', `locking ${path}: another process was faster`);
}

/** undefined when nobody is named: its holder died between taking the lock and saying so. */
async function readOwner(files: FilePort, path: string): Promise<ProcessIdentity | undefined> {
  const raw = await files.read(`${path}.owner`, MAX_OWNER_BYTES);
  try {
    const owner = JSON.parse(Buffer.from(raw ?? []).toString('utf8')) as Partial<ProcessIdentity>;
    const { pid, startTicks, bootId, machineId } = owner;
    if (pid === undefined || startTicks === undefined || bootId === undefined || machineId === undefined)
      return undefined;
    return { pid, startTicks, bootId, machineId };
  } catch {
    return undefined;
  }
}
