import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { dirname, join } from 'node:path';

/** The directory and the user of the compile cache. */
export interface CodeCacheOptions {
  /**
   * The cache directory of the user, `$XDG_CACHE_HOME` or `~/.cache`. It is created only in a directory of this user: after `sudo`, the
   * home directory may still be that of another user, who could not use a cache directory of root.
   */
  readonly cacheHome: string;
  /** Effective user id of this process. */
  readonly uid: number;
}

/**
 * Caches the compiled code of the modules that this process loads from now on, which makes the next start faster. A
 * process runs the code in its cache, so only the user of the process may be able to write to the cache. If other users
 * can write to it, nothing is cached.
 * @returns whether compiled code is kept
 */
export function keepCompiledCode({ cacheHome, uid }: CodeCacheOptions): boolean {
  try {
    if (!existsSync(cacheHome)) assertPrivate(dirname(cacheHome), uid);
    for (const path of [cacheHome, join(cacheHome, 'cluster'), join(cacheHome, 'cluster/compiled')]) {
      mkdirSync(path, { mode: 0o700, recursive: true });
      assertPrivate(path, uid);
    }
    return enableCompileCache(join(cacheHome, 'cluster/compiled')).directory !== undefined;
  } catch {
    return false;
  }
}

/** Throws unless the path is a directory of this user that no other user can write. A symbolic link is refused. */
function assertPrivate(path: string, uid: number): void {
  const found = lstatSync(path);
  const isWritableByOthers = (found.mode & 0o022) !== 0;
  if (!found.isDirectory() || found.uid !== uid || isWritableByOthers)
    throw new Error(`${path} is not private`);
}
