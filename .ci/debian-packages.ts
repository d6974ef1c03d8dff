/**
 * Pins Debian packages: the versions and hashes that the package sources of this machine offer. Run what uses it on Debian 12 after
 * `apt-get update`.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { parsePackageLock } from '../internal/image/index.ts';

function apt(...args: readonly string[]): string {
  return execFileSync('apt-cache', args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
}

/** The first alternative of each dependency of the packages. */
export function dependenciesOf(packages: readonly string[]): readonly string[] {
  const options = ['--no-recommends', '--no-suggests', '--no-conflicts', '--no-breaks', '--no-replaces'];
  let isAlternative = false;
  return apt('depends', ...options, ...packages)
    .split('\n')
    .flatMap((line) => {
      const match = /^ ([ |])(?:PreDepends|Depends): (\S+)$/.exec(line);
      if (match === null) return [];
      const isFirst = !isAlternative;
      isAlternative = match[1] === '|';
      return isFirst && match[2] !== undefined && !match[2].startsWith('<') ? [match[2]] : [];
    });
}

/** The packages and their dependencies, without those that are left out. */
export function closureOf(wanted: readonly string[], leftOut: ReadonlySet<string>): ReadonlySet<string> {
  const found = new Set<string>();
  for (let open = wanted; open.length > 0;) {
    for (const name of open) found.add(name);
    const next = new Set(dependenciesOf(open));
    open = [...next].filter((name) => !found.has(name) && !leftOut.has(name));
  }
  return found;
}

/** The newest versions that the package sources offer. */
function pin(packages: readonly string[]): readonly object[] {
  const records = apt('show', '--no-all-versions', ...packages).split(/\n\n+/);
  return records
    .filter((record) => record.startsWith('Package: '))
    .map((record) => {
      const field = (key: string): string => new RegExp(`^${key}: (.+)$`, 'm').exec(record)?.[1] ?? '';
      return {
        name: field('Package'),
        version: field('Version'),
        sha256: field('SHA256'),
        sizeBytes: Number(field('Size')),
      };
    });
}

/** Writes a list of pinned packages. */
export function writeLock(path: string, names: readonly string[]): void {
  const lock = { suite: 'bookworm', architecture: 'amd64', packages: pin(names) };
  const { packages } = parsePackageLock(lock);
  if (packages.length !== names.length)
    throw new Error(`the package sources offer ${packages.length} of ${names.length} packages`);
  writeFileSync(path, `${JSON.stringify(lock, undefined, 2)}\n`);
}
