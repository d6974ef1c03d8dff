import { randomUUID } from 'node:crypto';
import { lock } from 'proper-lockfile';
import { FileError, type FilePort } from '../file/index.ts';
import { PlatformError } from './errors.ts';
import { removeStaleLock, LockDirectory, readHolderText } from './lock-directory.ts';
import { processStatus, currentProcessIdentity, type ProcessIdentity } from './process-identity.ts';

const MAX_TRIES = 8;
/**
 * The age at which proper-lockfile counts a lock as stale. The value is the longest delay of a Node timer, because
 * proper-lockfile sets a timer to half of this age.
 */
const NEVER_STALE_MS = 2 ** 31 - 1;

/**
 * Lets one process of a program run at a time, with a lock of proper-lockfile. The kernel tells whether the
 * holder still runs (process id, start time, boot id). The age of a file does not decide, because a changed
 * clock must neither admit a second process nor lock out the first. The lock of a process that has ended is
 * taken over.
 * @param path of the lock's directory; paths that begin with it and a dot belong to the lock too
 * @param about facts about the holder that other processes get in the error
 * @throws PlatformError `platform-already-running` with the holder's process id and these facts,
 * `platform-lock-failed`; FileError when the directory cannot be written
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
    const status = other?.process === undefined ? 'unknown' : await processStatus(files, other.process);
    if (said.kind !== 'text' || other === undefined || status !== 'exited') throw heldBy(path, other);
    await removeStaleLock(files, path, { id: other.id, text: said.text });
  }
  throw new PlatformError(
    'platform-already-running',
    `locking ${path}: other processes keep taking the lock`,
  );
}

type Release = () => Promise<void>;

/** Undefined when another process holds the lock. */
async function tryLock(directory: LockDirectory): Promise<Release | undefined> {
  try {
    // proper-lockfile keeps one entry in memory for each path. A unique path keeps this call from changing the entry of
    // another call.
    return await lock(`${directory.path}#${randomUUID()}`, {
      realpath: false,
      lockfilePath: directory.path,
      stale: NEVER_STALE_MS,
      fs: directory,
      // proper-lockfile calls a lock compromised because of its file time, which this lock does not use.
      onCompromised: () => undefined,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined;
    // A directory that cannot be written, or a full disk. The path of a temporary file is left out.
    if (error instanceof FileError) throw new FileError(error.code, `locking ${directory.path}`, error);
    throw new PlatformError('platform-lock-failed', `locking ${directory.path}`, { cause: error });
  }
}

function heldBy(path: string, holder: Holder | undefined): PlatformError {
  const pid = holder?.process?.pid;
  const who = pid === undefined ? 'held by an unknown process' : `held by process ${pid}`;
  return new PlatformError('platform-already-running', `locking ${path}: ${who}`, {
    details: { pid, about: holder?.about },
  });
}

interface Holder {
  readonly id: string;
  readonly about: unknown;
  readonly process: ProcessIdentity | undefined;
}

/** Undefined when the text does not have our format. */
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
