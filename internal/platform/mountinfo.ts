import { readText, type FilePort } from '../file/index.ts';

/** One mount, from a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)). */
export interface Mount {
  /** The ID of the mount, and of the mount on which it is mounted. The parent of the root is not in the list. */
  readonly id: string;
  readonly parentId: string;
  /** The number of the block device, "8:1"; its major number is 0 if the file system has no block device of its own. */
  readonly device: string;
  /** The mount point. */
  readonly point: string;
  /** The directory of the file system that is mounted; `net:[4026532177]` for a network namespace. */
  readonly root: string;
  readonly type: string;
  readonly source: string;
  /**
   * Options of the mount and of the file system; cgroup v1 lists its controllers among the options of the file system.
   */
  readonly options: readonly string[];
  readonly superOptions: readonly string[];
}

/** The mounts of this process, in the order in which they were made. */
export async function readMounts(files: Pick<FilePort, 'read'>): Promise<readonly Mount[]> {
  return parseMountinfo((await readText(files, '/proc/self/mountinfo')) ?? '');
}

/** @throws TypeError for an unexpected line: a mount that is overlooked could stay mounted */
export function parseMountinfo(text: string): readonly Mount[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [left = '', right = ''] = line.split(/ - (.*)/s);
    const [id = '', parentId = '', device, root, point, options] = left.split(' ');
    const [type, source = '', superOptions] = right.split(' ');
    if (
      device === undefined ||
      root === undefined ||
      point === undefined ||
      options === undefined ||
      type === undefined ||
      superOptions === undefined
    )
      throw new TypeError(`parsing mountinfo: unexpected line ${JSON.stringify(line)}`);
    return {
      id,
      parentId,
      device,
      point: unescapePath(point),
      root: unescapePath(root),
      type,
      source: unescapePath(source),
      options: options.split(','),
      superOptions: superOptions.split(','),
    };
  });
}

/**
 * The mount that contains a path. Follows the path as the kernel does (path_resolution(7)): from the root to the mount on it that the
 * path meets first, and so on. A mount below another one that was mounted later over its parent directory is hidden.
 */
export function mountOf(mounts: readonly Mount[], path: string): Mount | undefined {
  let left = mounts.filter(({ point }) => contains(point, path));
  const ids = new Set(left.map(({ id }) => id));
  let next = left.filter(({ id, parentId }) => parentId === id || !ids.has(parentId));
  let found: Mount | undefined;
  while (next.length > 0) {
    const nearest = Math.min(...next.map(({ point }) => point.length));
    const mount = next.findLast(({ point }) => point.length === nearest);
    left = left.filter((each) => each !== mount);
    next = left.filter(({ parentId }) => parentId === mount?.id);
    found = mount;
  }
  return found;
}

function contains(point: string, path: string): boolean {
  return point === '/' || path === point || path.startsWith(`${point}/`);
}

/**
 * Why nothing can be written to a mount; undefined: it is writable. Either the mount is read-only or its file system, which the kernel makes
 * read-only after an error (mount(8), `errors=remount-ro`). Since Linux 6.15, ext4 shows that as `emergency_ro`, and a file system that it
 * has shut down as `shutdown`.
 */
export function whyUnwritable({ options, superOptions }: Mount): string | undefined {
  if (superOptions.includes('shutdown')) return 'shut down';
  const isReadOnly =
    options.includes('ro') || ['ro', 'emergency_ro'].some((each) => superOptions.includes(each));
  return isReadOnly ? 'read-only' : undefined;
}

/** The kernel writes blank, tab, newline and backslash as three octal digits. */
function unescapePath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
