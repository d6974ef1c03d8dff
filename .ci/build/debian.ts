import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

/** One entry of a package: a folder, a copy of a file, or a file with this text. */
export type Entry = { readonly path: string; readonly mode: number } & (
  | { readonly kind: 'folder' }
  | { readonly kind: 'copy'; readonly from: string }
  | { readonly kind: 'text'; readonly text: string }
);

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly summary: string;
  readonly description: string;
  readonly depends: readonly string[];
  readonly recommends?: readonly string[];
  readonly entries: readonly Entry[];
  /** Maintainer scripts by name: the files they are copied from. */
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
 * Builds `<dist>/<name>_<version>_<architecture>.deb`. The same content gives the same bytes: every time
 * is `epochSeconds`, everything belongs to root, modes are explicit.
 */
export function buildDebianPackage(dist: string, epochSeconds: number, options: DebianPackage): string {
  const stage = mkdtempSync(join(tmpdir(), 'cluster-deb-'));
  try {
    for (const entry of options.entries) place(stage, entry);
    const installedKiB = Math.ceil(sizeOf(stage) / 1024);
    const control = { path: '/DEBIAN/control', mode: 0o644, text: controlText(options, installedKiB) };
    place(stage, { kind: 'text', ...control });
    for (const [name, from] of Object.entries(options.scripts ?? {})) {
      place(stage, { kind: 'copy', path: `/DEBIAN/${name}`, mode: 0o755, from });
    }
    setModes(stage, options.entries);
    setTimes(stage, epochSeconds);
    const target = resolve(dist, `${options.name}_${options.version}_${options.architecture}.deb`);
    const compression = ['-Zzstd', '-z3', '--uniform-compression'];
    execFileSync('dpkg-deb', ['--root-owner-group', ...compression, '--build', stage, target], {
      env: { PATH: process.env['PATH'], SOURCE_DATE_EPOCH: String(epochSeconds) },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    return target;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

function place(stage: string, entry: Entry): void {
  const target = join(stage, entry.path);
  mkdirSync(entry.kind === 'folder' ? target : dirname(target), { recursive: true });
  if (entry.kind === 'copy') copyFileSync(entry.from, target);
  if (entry.kind === 'text') writeFileSync(target, entry.text);
  chmodSync(target, entry.mode);
}

/** The umask has no say: folders are 0755 unless the package says otherwise. */
function setModes(stage: string, entries: readonly Entry[]): void {
  for (const path of walk(stage)) if (statSync(path).isDirectory()) chmodSync(path, 0o755);
  for (const { path, mode } of entries) chmodSync(join(stage, path), mode);
}

function* walk(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    yield path;
  }
  yield folder;
}

function sizeOf(folder: string): number {
  return [...walk(folder)].map((path) => statSync(path)).reduce((sum, { size }) => sum + size, 0);
}

function setTimes(folder: string, epochSeconds: number): void {
  for (const path of walk(folder)) lutimesSync(path, epochSeconds, epochSeconds);
}
