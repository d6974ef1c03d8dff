import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { place, sizeInKiB, withStage, type Entry } from './staging.ts';

/** A Debian package and its files. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly summary: string;
  readonly description: string;
  readonly depends: readonly string[];
  readonly recommends?: readonly string[];
  readonly entries: readonly Entry[];
  /** Maintainer script → path of the file with its text. */
  readonly scripts?: Readonly<Record<string, string>>;
}

/** The `control` file (deb-control(5)). Pure. */
export function controlText(
  options: Omit<DebianPackage, 'entries' | 'scripts'>,
  installedKiB: number,
): string {
  const fields: readonly (readonly [string, string])[] = [
    ['Package', options.name],
    ['Version', options.version],
    ['Architecture', options.architecture],
    ['Maintainer', 'The cluster authors <maintainers@users.noreply.github.com>'],
    ['Installed-Size', String(installedKiB)],
    ['Depends', options.depends.join(', ')],
    ...(options.recommends === undefined ? [] : [['Recommends', options.recommends.join(', ')] as const]),
    ['Section', 'admin'],
    ['Priority', 'optional'],
    ['Description', `${options.summary}\n ${options.description}`],
  ];
  return fields.map(([name, value]) => `${name}: ${value}\n`).join('');
}

/**
 * Builds `<dist>/<name>_<version>_<architecture>.deb` and returns its path. The same content gives the same bytes: all times are
 * `epochSeconds`, the owner is root, modes are explicit.
 */
export function buildDebianPackage(dist: string, epochSeconds: number, options: DebianPackage): string {
  const { entries, scripts = {} } = options;
  const more = (stage: string): void => {
    const text = controlText(options, sizeInKiB(stage));
    place(stage, { kind: 'text', path: '/DEBIAN/control', mode: 0o644, text });
    for (const [name, from] of Object.entries(scripts)) {
      place(stage, { kind: 'copy', path: `/DEBIAN/${name}`, mode: 0o755, from });
    }
  };
  return withStage({ entries, epochSeconds, more }, (stage) => {
    const target = resolve(dist, `${options.name}_${options.version}_${options.architecture}.deb`);
    const compression = ['-Zzstd', '-z3', '--uniform-compression'];
    execFileSync('dpkg-deb', ['--root-owner-group', ...compression, '--build', stage, target], {
      env: { PATH: process.env['PATH'], SOURCE_DATE_EPOCH: String(epochSeconds) },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    return target;
  });
}
