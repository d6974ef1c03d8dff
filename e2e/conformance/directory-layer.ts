import { join } from 'node:path';
import type { BuildContext, TarEntry } from '../../internal/bundlebuild/index.ts';

/** Directories that no program reads, and that make an image several times larger. */
const UNUSED = ['usr/share/doc', 'usr/share/man', 'usr/share/locale', 'usr/share/info', 'usr/share/lintian'];

/**
 * Every file, link and directory below `root` as a layer of an image, with its mode and owned by root. Leaves out documentation
 * and translations.
 */
export async function directoryLayer(context: BuildContext, root: string): Promise<readonly TarEntry[]> {
  const { stdout } = await context.ports.commands.run({
    argv: ['find', root, '-mindepth', '1', '-printf', '%y\\t%m\\t%s\\t%P\\t%l\\n'],
    signal: context.signal,
  });
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.flatMap((line): readonly TarEntry[] => {
    const [type, octal = '', size, path = '', target = ''] = line.split('\t');
    if (UNUSED.some((unused) => `${path}/`.startsWith(`${unused}/`))) return [];
    const mode = Number.parseInt(octal, 8);
    if (type === 'd') return [{ type: 'directory', path, mode }];
    if (type === 'l') return [{ type: 'symlink', path, target }];
    if (type !== 'f') return [];
    const content = () => context.ports.streams.readChunks(join(root, path), { signal: context.signal });
    return [{ type: 'file', path, mode, sizeBytes: Number(size), content }];
  });
}
