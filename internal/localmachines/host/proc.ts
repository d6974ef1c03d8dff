/** One line of /proc/PID/mountinfo (proc_pid_mountinfo(5)), as far as it is used here. */
export interface MountFact {
  readonly point: string;
  /** Where in its file system the mount begins; `net:[4026532177]` for a kept network namespace. */
  readonly root: string;
  readonly type: string;
  readonly source: string;
  /** Options of the file system itself; cgroup v1 names its controllers here. */
  readonly superOptions: readonly string[];
}

/** Parses mountinfo. Lines of another shape are refused: nothing may be missed when cleaning up. */
export function parseMountinfo(text: string): readonly MountFact[] {
  return lines(text).map((line) => {
    const [left, right] = split(line, ' - ');
    const fields = left.split(' ');
    const [type, source, superOptions] = right.split(' ');
    const root = fields[3];
    const point = fields[4];
    if (root === undefined || point === undefined || type === undefined || superOptions === undefined) {
      throw new TypeError(`parsing mountinfo: unexpected line ${JSON.stringify(line)}`);
    }
    return {
      point: unescapePath(point),
      root: unescapePath(root),
      type,
      source: unescapePath(source ?? ''),
      superOptions: superOptions.split(','),
    };
  });
}

/** The process ids of a process, outermost namespace first, from /proc/PID/status (`NSpid:` line). */
export function parseNamespacePids(status: string): readonly number[] {
  const line = lines(status).find((each) => each.startsWith('NSpid:'));
  return line === undefined ? [] : line.slice('NSpid:'.length).trim().split(/\s+/).map(Number);
}

/** Whether a process of /proc/PID/status has ended and only waits for its parent. */
export function isZombie(status: string): boolean {
  return /^State:\s+[ZX]/m.test(status);
}

/** Whether the effective capabilities of /proc/PID/status contain capability `bit`. */
export function hasCapability(status: string, bit: number): boolean {
  const hex = /^CapEff:\s+([0-9a-f]+)$/m.exec(status)?.[1];
  return hex !== undefined && ((BigInt(`0x${hex}`) >> BigInt(bit)) & 1n) === 1n;
}

/** The cgroup of a process in each hierarchy, from /proc/PID/cgroup: `9:name=systemd:/a` → ['name=systemd', '/a']. */
export function parseProcessCgroups(text: string): ReadonlyMap<string, string> {
  return new Map(
    lines(text).map((line) => {
      const [, controllers = '', ...path] = line.split(':');
      return [controllers, path.join(':')];
    }),
  );
}

function lines(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '');
}

function split(line: string, separator: string): readonly [string, string] {
  const at = line.indexOf(separator);
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + separator.length)];
}

/** The kernel writes blank, tab, newline and backslash as octal. */
function unescapePath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
