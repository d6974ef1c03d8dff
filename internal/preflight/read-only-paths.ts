import { mountOf, type Mount } from '../platform/index.ts';

/** The paths that are on a read-only file system. */
export function readOnlyPaths(mounts: readonly Mount[], paths: readonly string[]): ReadonlySet<string> {
  return new Set(
    paths.filter((path) => {
      const mount = mountOf(mounts, path);
      return mount !== undefined && [...mount.options, ...mount.superOptions].includes('ro');
    }),
  );
}
