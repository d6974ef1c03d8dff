import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncDirectory } from './disk-io.ts';
import { fileError } from './errors.ts';

/** Journals as a port: bytes at the end of a file, durable when the promise resolves. */
export interface AppendPort {
  /** Creates the file (0600) when it does not exist. */
  appendSynced(path: string, data: string): Promise<void>;
}

export async function appendSynced(path: string, data: string): Promise<void> {
  try {
    await using handle = await open(path, 'a', 0o600);
    const isNew = (await handle.stat()).size === 0;
    await handle.writeFile(data);
    await handle.datasync();
    if (isNew) await syncDirectory(dirname(path));
  } catch (error) {
    throw fileError(`appending to ${path}`, error);
  }
}
