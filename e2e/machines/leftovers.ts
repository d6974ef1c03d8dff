import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import {
  currentProcessIdentity,
  processStatus,
  type ProcessIdentity,
} from '../../internal/platform/index.ts';

const OWNER = 'owner.json';
const files = new DiskFiles();

/** Writes down that this process removes the directory. If it is killed, the next one does (`removeLeftovers()`). */
export async function ownDirectory(directory: string): Promise<void> {
  await writeFile(join(directory, OWNER), JSON.stringify(await currentProcessIdentity(files)));
}

/**
 * Removes directories whose owner was killed.
 * @param parent where they are
 * @param prefix how their names begin
 * @param empty removes what belongs to a directory, such as running machines
 */
export async function removeLeftovers(
  parent: string,
  prefix: string,
  empty: (directory: string) => Promise<void>,
): Promise<void> {
  for (const name of await readdir(parent)) {
    const directory = join(parent, name);
    if (!name.startsWith(prefix) || !(await hasLostOwner(directory))) continue;
    await ownDirectory(directory); // Another story that starts now leaves it alone.
    await empty(directory);
    await rm(directory, { recursive: true, force: true });
  }
}

/** A directory without an owner is one that somebody creates at this moment. */
async function hasLostOwner(directory: string): Promise<boolean> {
  const text = await readFile(join(directory, OWNER), 'utf8').catch(() => '');
  if (text === '') return false;
  return (await processStatus(files, JSON.parse(text) as ProcessIdentity)) === 'exited';
}
