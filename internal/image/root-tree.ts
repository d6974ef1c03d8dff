import type { CpioEntry } from './cpio.ts';
import { ImageError } from './errors.ts';

/** The files of one package. Paths are as in the package, without a leading slash. */
export interface PackageFiles {
  readonly name: string;
  readonly entries: readonly CpioEntry[];
}

/** On the image these directories are links into /usr, as on every Debian since version 12. */
const MERGED = ['bin', 'lib', 'lib64', 'sbin'];
/** Files that a machine does not read, which the image omits. Licences (`usr/share/doc/NAME/copyright`) stay. */
const DROPPED =
  /^(boot|etc\/(initramfs|kernel)|usr\/include|usr\/share\/(base-passwd|bash-completion|bug|doc-base|gcc|gdb|info|initramfs-tools|libgcrypt20|lintian|locale|man|pkgconfig|zsh)|usr\/share\/doc\/.+\/(?!copyright$)[^/]+)(\/|$)/;
/** Programs that ask for a login or switch to another user. Without these programs, no console accepts input. */
const LOGINS = new Set(['agetty', 'getty', 'runuser', 'su', 'sulogin']);
const SHELLS = new Set(
  'ash bash busybox csh dash dropbear fish ksh login mksh rbash sh ssh sshd tcsh telnetd zsh'.split(' '),
);
const PROGRAM_DIRECTORY = /^usr\/(local\/)?s?bin\//;

/**
 * The root directory of the image: the files of the packages, then our own, which replace a package's. Sorted by path,
 * parents first.
 * @throws ImageError
 */
export function createRootTree(
  packages: readonly PackageFiles[],
  own: readonly CpioEntry[],
): readonly CpioEntry[] {
  const tree = new Map<string, CpioEntry>();
  for (const { name, entries } of packages)
    for (const entry of entries.map(merged).filter(isKept)) addOnce(tree, name, entry);
  for (const path of MERGED) tree.set(path, { kind: 'symlink', path, target: `usr/${path}` });
  for (const entry of own.map(merged)) tree.set(entry.path, entry);
  for (const path of [...tree.keys()]) addParents(tree, path);
  refuseShells(tree);
  return [...tree.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * The entry with its path on the image, without set-user-id bits: an image has no users, so no program needs the rights
 * of another user.
 */
function merged(entry: CpioEntry): CpioEntry {
  const [top = ''] = entry.path.split('/');
  const path = MERGED.includes(top) ? `usr/${entry.path}` : entry.path;
  return entry.kind === 'file' ? { ...entry, path, mode: entry.mode & 0o777 } : { ...entry, path };
}

function isKept({ path }: CpioEntry): boolean {
  const isLogin = PROGRAM_DIRECTORY.test(path) && LOGINS.has(path.slice(path.lastIndexOf('/') + 1));
  return path !== '' && !DROPPED.test(path) && !isLogin;
}

/** Two packages may have the same directory, but not the same file. */
function addOnce(tree: Map<string, CpioEntry>, name: string, entry: CpioEntry): void {
  const known = tree.get(entry.path);
  if (known !== undefined && (known.kind !== 'directory' || entry.kind !== 'directory'))
    throw new ImageError('image-tree', `${name} contains ${entry.path}, which another package contains too`);
  if (known === undefined) tree.set(entry.path, entry);
}

function addParents(tree: Map<string, CpioEntry>, path: string): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const parent = path.slice(0, end);
    const known = tree.get(parent);
    if (known === undefined) tree.set(parent, { kind: 'directory', path: parent, mode: 0o755 });
    else if (known.kind !== 'directory')
      throw new ImageError('image-tree', `${path} is below ${parent}, which is no directory`);
  }
}

/** Refuses an image in which somebody could get a command line. */
function refuseShells(tree: ReadonlyMap<string, CpioEntry>): void {
  for (const path of tree.keys())
    if (PROGRAM_DIRECTORY.test(path) && SHELLS.has(path.slice(path.lastIndexOf('/') + 1)))
      throw new ImageError('image-shell', `the image would contain ${path}`);
}
