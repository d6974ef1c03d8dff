import { mountOf, whyUnwritable, type Mount } from '../platform/index.ts';
import { failed, type Observation } from './check.ts';

/** A mount to which nothing can be written, and the directories of a node that are on it. */
export interface UnwritableFileSystem {
  /** The mount point. */
  readonly point: string;
  readonly directories: readonly string[];
  /** "read-only: /dev/sda1 (ext4) on /var" */
  readonly why: string;
}

/** The file systems of these directories to which nothing can be written, without a single write: by their mounts. */
export function findUnwritable(
  mounts: readonly Mount[],
  directories: readonly string[],
): readonly UnwritableFileSystem[] {
  const byMount = Map.groupBy(directories, (directory) => mountOf(mounts, directory));
  return [...byMount].flatMap(([mount, on]) => {
    const why = mount && whyUnwritable(mount);
    if (mount === undefined || why === undefined) return [];
    const { point, source, type } = mount;
    return [{ point, directories: on, why: `${why}: ${source} (${type}) on ${point}` }];
  });
}

/** The file systems that a running node writes to. */
export const fileSystems = ({
  unwritable,
}: {
  readonly unwritable: readonly UnwritableFileSystem[];
}): readonly Observation[] => {
  const threshold = 'writable';
  if (unwritable.length === 0) return [{ subject: 'file systems', figure: 'writable', threshold }];
  return unwritable.map(({ point, directories, why }) => ({
    subject: `file system ${point}`,
    figure: 'not writable',
    threshold,
    problem: failed(`the file system of ${outermost(directories).join(', ')} is ${why}`),
  }));
};

/** Without the directories that are in another one of them: one read-only file system is one problem. */
export function outermost(directories: readonly string[]): readonly string[] {
  return directories.filter((each) => !directories.some((other) => each.startsWith(`${other}/`)));
}
