import type { Mount } from '../platform/index.ts';

/**
 * The paths that are on a read-only file system. For each path the deepest mount that contains it decides,
 * and of several at the same mount point the latest.
 */
export function readOnlyPaths(mounts: readonly Mount[], paths: readonly string[]): ReadonlySet<string> {
  return new Set(
    paths.filter((path) => {
      const containing = mounts.filter(({ point }) => contains(point, path));
      const deepest = Math.max(...containing.map(({ point }) => point.length));
      const mount = containing.findLast(({ point }) => point.length === deepest);
      return mount !== undefined && [...mount.options, ...mount.superOptions].includes('ro');
    }),
  );
}

function contains(point: string, path: string): boolean {
  return point === '/' || path === point || path.startsWith(`${point}/`);
}
