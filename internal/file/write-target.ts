import { constants, type Stats } from 'node:fs';
import { open, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { undefinedIfAbsent } from './disk-io.ts';
import { FileError } from './errors.ts';
import type { WriteTarget } from './file-port.ts';

/**
 * Refuses to replace anything but a regular file: a rename over /dev/null, or over the link /dev/stdout, leaves the
 * machine without it. @throws FileError `file-wrong-kind`
 */
export async function refuseSpecialFile(path: string): Promise<void> {
  const found = await stat(path).catch(undefinedIfAbsent);
  if (found !== undefined && !found.isFile()) throw wrongKind(path, found);
}

/** See `OutputPort.resolveTarget()`. */
export async function resolveTarget(path: string): Promise<WriteTarget> {
  // stat(2) first: with fs.protected_symlinks, it refuses a link that another user has put into /tmp.
  const found = await stat(path).catch(undefinedIfAbsent);
  if (found === undefined) {
    const link = await readlink(path).catch(undefinedIfAbsent);
    return link === undefined
      ? { kind: 'none', path }
      : resolveTarget(resolve(await realpath(dirname(path)), link));
  }
  if (found.isFile()) return { kind: 'file', path: await realpath(path) };
  // Bytes written into a block device would overwrite the file system on it.
  if (found.isFIFO() || found.isCharacterDevice()) return { kind: 'stream', path };
  throw wrongKind(path, found);
}

/** See `OutputPort.writeInto()`. */
export async function writeInto(path: string, data: Uint8Array | string): Promise<void> {
  await using handle = await open(path, constants.O_WRONLY | constants.O_NOCTTY);
  await handle.writeFile(data);
}

function wrongKind(path: string, found: Stats): FileError {
  const [kind, errno] = found.isDirectory()
    ? ['a directory', 'EISDIR']
    : ['no regular file but a device, a pipe or a socket', undefined];
  return new FileError('file-wrong-kind', `writing ${path}: it is ${kind}`, { details: { errno } });
}
