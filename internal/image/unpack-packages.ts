import { join } from 'node:path';
import type { CpioEntry } from './cpio.ts';
import { ImageError } from './errors.ts';
import type { PackageContext } from './fetch-packages.ts';
import type { PackageFiles } from './root-tree.ts';

const MAX_FILE_BYTES = 512 * 2 ** 20;
const TRIPLET = 'x86_64-linux-gnu';
const FIELDS = 4;
const KERNEL_PREFIX = 'linux-image-';
/**
 * The files that `indexModules()` writes. They get a fixed mode, because otherwise their mode would depend on the umask
 * of this process.
 */
const MODULE_LIST = /^lib\/modules\/[^/]+\/modules\.[^/]+$/;
const MODULE_LIST_MODE = 0o644;

/**
 * Directories below `kernel` whose modules no server needs: sound, graphics (the console uses the frame buffer of the firmware), radio, cameras, sensors and
 * devices of laptops, and networks and file systems of other systems. They are about half of all modules (391 MB), and would be in memory for as
 * long as the machine runs.
 */
const UNUSED = {
  sound: ['.'],
  drivers: [
    ...['accel', 'auxdisplay', 'bluetooth', 'comedi', 'firewire', 'gpu', 'greybus', 'iio', 'isdn'],
    ...['leds', 'media', 'memstick', 'mtd', 'nfc', 'parport', 'pcmcia', 'power', 'rapidio', 'rpmsg', 'siox'],
    ...['soundwire', 'staging', 'thunderbolt', 'video', 'w1'],
    ...['input/joystick', 'input/misc', 'input/mouse', 'input/tablet', 'input/touchscreen'],
    ...[
      'net/arcnet',
      'net/can',
      'net/fddi',
      'net/hamradio',
      'net/hippi',
      'net/ieee802154',
      'net/plip',
      'net/ppp',
    ],
    ...['net/slip', 'net/wan', 'net/wireless', 'net/wwan'],
    ...['platform/chrome', 'platform/surface', 'platform/x86'],
    ...['usb/atm', 'usb/gadget', 'usb/image', 'usb/misc', 'usb/serial'],
  ],
  net: [
    ...[
      '6lowpan',
      'appletalk',
      'atm',
      'ax25',
      'batman-adv',
      'bluetooth',
      'caif',
      'can',
      'dccp',
      'ieee802154',
      'lapb',
    ],
    ...[
      'mac80211',
      'mac802154',
      'netrom',
      'nfc',
      'phonet',
      'qrtr',
      'rds',
      'rfkill',
      'rose',
      'rxrpc',
      'wireless',
      'x25',
    ],
  ],
  fs: [
    ...[
      'adfs',
      'affs',
      'afs',
      'befs',
      'bfs',
      'coda',
      'ecryptfs',
      'efs',
      'f2fs',
      'freevxfs',
      'gfs2',
      'hfs',
      'hfsplus',
      'hpfs',
    ],
    ...[
      'jffs2',
      'jfs',
      'minix',
      'nilfs2',
      'ntfs',
      'ntfs3',
      'ocfs2',
      'omfs',
      'orangefs',
      'qnx4',
      'qnx6',
      'reiserfs',
      'romfs',
    ],
    ...['sysv', 'ubifs', 'ufs', 'zonefs'],
  ],
} as const;
/** A network card of servers whose driver is not finished. */
const USED = 'kernel/drivers/staging/qlge/';

/** Unpacks each package into a directory of its own below `directory`. */
export async function unpackPackages(
  context: PackageContext,
  packages: ReadonlyMap<string, string>,
  directory: string,
): Promise<void> {
  const { files, commands } = context.ports;
  for (const [name, path] of packages) {
    const target = join(directory, name);
    await files.makeDirectory(target);
    await commands.run({ argv: ['dpkg-deb', '-x', path, target], signal: context.signal });
  }
}

/**
 * The files of an unpacked package, with the modes of the package, whatever the umask and the user of this process. All belong to
 * root on the image. @throws ImageError `image-tree`
 */
export async function readPackageFiles(
  context: PackageContext,
  directory: string,
  name: string,
): Promise<PackageFiles> {
  const root = join(directory, name);
  const { stdout } = await context.ports.commands.run({
    argv: ['find', root, '-mindepth', '1', '-printf', '%y\\0%m\\0%P\\0%l\\0'],
    signal: context.signal,
  });
  const fields = stdout.split('\0');
  const entries: CpioEntry[] = [];
  for (let at = 0; at + FIELDS < fields.length; at += FIELDS) {
    const [type = '', mode = '', path = '', target = ''] = fields.slice(at, at + FIELDS);
    entries.push(await readEntry(context, { root, type, mode: Number.parseInt(mode, 8), path, target }));
  }
  return { name, entries };
}

async function readEntry(
  context: PackageContext,
  found: {
    readonly root: string;
    readonly type: string;
    readonly mode: number;
    readonly path: string;
    readonly target: string;
  },
): Promise<CpioEntry> {
  const { root, type, mode, path, target } = found;
  if (type === 'd') return { kind: 'directory', path, mode };
  if (type === 'l') return { kind: 'symlink', path, target };
  if (type !== 'f') throw new ImageError('image-tree', `${path} is neither file, directory nor link`);
  const content = await readFile(context, join(root, path));
  return { kind: 'file', path, mode: MODULE_LIST.test(path) ? MODULE_LIST_MODE : mode, content };
}

/** Reads a file of an unpacked package. @throws ImageError `image-tree` */
export async function readFile(context: PackageContext, path: string): Promise<Uint8Array> {
  const content = await context.ports.files.read(path, MAX_FILE_BYTES);
  if (content === undefined) throw new ImageError('image-tree', `${path} not found in the packages`);
  return content;
}

/** The package of the kernel, and the release of this kernel. @throws ImageError `image-tree` */
export function kernelOf(packages: readonly string[]): { readonly name: string; readonly release: string } {
  const name = packages.find((each) => each.startsWith(KERNEL_PREFIX));
  if (name === undefined) throw new ImageError('image-tree', 'no kernel in the packages');
  return { name, release: name.slice(KERNEL_PREFIX.length) };
}

/**
 * Removes the modules that no server needs from the unpacked package of the kernel, except those of which another module depends. `indexModules()` has written the
 * list of dependencies before, and writes it again afterwards. @throws ImageError `image-tree`
 */
export async function removeUnusedModules(
  context: PackageContext,
  directory: string,
  packages: readonly string[],
): Promise<void> {
  const { name, release } = kernelOf(packages);
  const modules = join(directory, name, 'lib/modules', release);
  const list = Buffer.from(await readFile(context, join(modules, 'modules.dep'))).toString('utf8');
  // "PATH: PATH…": a module, and all those that it depends on, also those of the latter (modules.dep(5)).
  const rows = list.split('\n').map((line) => line.split(/:? |:$/));
  const needed = new Set(rows.flatMap((row) => (isUnused(row[0] ?? '') ? [] : row)));
  for (const [path = ''] of rows)
    if (path !== '' && !needed.has(path)) await context.ports.files.remove(join(modules, path));
}

function isUnused(path: string): boolean {
  if (path.startsWith(USED)) return false;
  return Object.entries(UNUSED).some(([above, names]) =>
    names.some((name) => path.startsWith(join('kernel', above, name, '/'))),
  );
}

/**
 * Writes the module lists (modules.dep and others) of the kernel's package. Runs the pinned `depmod` from its unpacked
 * package. @throws ImageError `image-tree`
 */
export async function indexModules(
  context: PackageContext,
  directory: string,
  packages: readonly string[],
): Promise<void> {
  const { name: kernel, release } = kernelOf(packages);
  const libraries = packages.flatMap((name) =>
    ['lib', 'usr/lib'].map((path) => join(directory, name, path, TRIPLET)),
  );
  await context.ports.commands.run({
    argv: [
      join(directory, 'libc6/lib', TRIPLET, 'ld-linux-x86-64.so.2'),
      ...(['--library-path', libraries.join(':'), '--argv0', 'depmod'] as const),
      join(directory, 'kmod/bin/kmod'),
      ...(['-b', join(directory, kernel), release] as const),
    ],
    env: { LC_ALL: 'C' },
    signal: context.signal,
  });
}
