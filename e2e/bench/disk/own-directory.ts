import { mkdir, mkdtemp, readdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

/** The type of a tmpfs, in statfs(2). */
const TMPFS = 0x0102_1994;

/**
 * Creates a directory of this process below `parent`, and deletes those that killed processes left.
 * @throws Error if it would be in memory
 */
export async function createOwnDirectory(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true });
  await refuseMemory(parent);
  await removeLeftovers(parent);
  return mkdtemp(join(parent, `${process.pid}-`));
}

/** @throws Error if the directory is on a tmpfs: a disk in memory would be measured, and the memory is that of the guest */
export async function refuseMemory(directory: string): Promise<void> {
  const { type } = await statfs(directory);
  if (type === TMPFS)
    throw new Error(
      `${directory} is in memory (tmpfs), but the disks of the bench need a file system on a disk: run it from a checkout on one`,
    );
}

/** Deletes the directories of this user whose processes have ended. */
export async function removeLeftovers(parent: string, uid = process.getuid?.()): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = /^(\d+)-/.exec(name)?.[1];
    const path = join(parent, name);
    const owner = await ownerOf(path);
    if (pid === undefined || owner === undefined || owner !== uid) continue;
    if ((await ownerOf(`/proc/${pid}`)) === undefined) await rm(path, { recursive: true, force: true });
  }
}

/** Undefined if there is no such file. */
async function ownerOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    (found) => found.uid,
    () => undefined,
  );
}
