import { readText, type FilePort } from '../file/index.ts';

/** One mount, from a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)). */
export interface Mount {
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
    const [, , device, root, point, options] = left.split(' ');
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

/** The kernel writes blank, tab, newline and backslash as three octal digits. */
function unescapePath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
