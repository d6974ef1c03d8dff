/**
 * Those of `paths` that lie on a file system which is mounted read-only, by /proc/self/mountinfo (proc(5)): the mount that was
 * made last counts, of those that contain a path the deepest.
 */
export function readOnlyPaths(mountinfo: string, paths: readonly string[]): ReadonlySet<string> {
  const mounts = mountinfo.split('\n').flatMap((line) => parseMount(line));
  return new Set(
    paths.filter((path) => {
      const containing = mounts.filter(({ point }) => contains(point, path));
      const deepest = Math.max(...containing.map(({ point }) => point.length));
      return containing.findLast(({ point }) => point.length === deepest)?.isReadOnly === true;
    }),
  );
}

/** ID parent major:minor root POINT OPTIONS fields… - type source SUPER-OPTIONS */
function parseMount(line: string): readonly { readonly point: string; readonly isReadOnly: boolean }[] {
  const [before = '', after = ''] = line.split(' - ');
  const [, , , , point, options] = before.split(' ');
  if (point === undefined || options === undefined) return [];
  const all = `${options},${after.split(' ')[2] ?? ''}`.split(',');
  const unescaped = point.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
  return [{ point: unescaped, isReadOnly: all.includes('ro') }];
}

function contains(point: string, path: string): boolean {
  return point === '/' || path === point || path.startsWith(`${point}/`);
}
