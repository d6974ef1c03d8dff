import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Architecture } from './node-binary.ts';
import { withStage, type Entry } from './staging.ts';

/** The architecture names of RPM. */
const RPM_ARCHITECTURES: Readonly<Record<Architecture, string>> = { amd64: 'x86_64', arm64: 'aarch64' };

/** An RPM package and its files. */
export interface RpmPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: Architecture;
  readonly summary: string;
  readonly description: string;
  readonly requires: readonly string[];
  readonly recommends?: readonly string[];
  readonly entries: readonly Entry[];
  /** Scriptlet (`post`, `preun`, `postun`) → path of the file with its text. */
  readonly scripts?: Readonly<Record<string, string>>;
}

/** The spec file for files that are in `stage` already: nothing is compiled, stripped or scanned. Pure. */
export function specText(
  options: RpmPackage,
  scripts: Readonly<Record<string, string>>,
  stage: string,
): string {
  const { name, version, summary, description, requires, recommends = [], entries } = options;
  return [
    ...['debug_package', '__os_install_post', '__spec_install_post'].map((each) => `%global ${each} %{nil}`),
    '%global _build_id_links none',
    '%global _binary_payload w3.zstdio',
    '%global _buildhost cluster',
    '%global use_source_date_epoch_as_buildtime 1',
    '%global clamp_mtime_to_source_date_epoch 1',
    `Name: ${name}`,
    `Version: ${version.replaceAll('-', '~')}`,
    'Release: 1',
    `Summary: ${summary}`,
    'License: Apache-2.0',
    'AutoReqProv: no',
    ...requires.map((each) => `Requires: ${each}`),
    ...recommends.map((each) => `Recommends: ${each}`),
    '%description',
    description,
    '%install',
    `cp -a '${stage}/.' %{buildroot}/`,
    ...Object.entries(scripts).flatMap(([which, text]) => [`%${which}`, text.trimEnd()]),
    '%files',
    ...entries.map(({ kind, path, mode }) => {
      return `${kind === 'directory' ? '%dir ' : ''}%attr(${mode.toString(8).padStart(4, '0')}, root, root) ${path}`;
    }),
    '',
  ].join('\n');
}

/** Builds `<dist>/<name>-<version>-1.<architecture>.rpm` with rpmbuild. The same content gives the same bytes. Returns the path. */
export function buildRpmPackage(dist: string, epochSeconds: number, options: RpmPackage): string {
  const architecture = RPM_ARCHITECTURES[options.architecture];
  const version = options.version.replaceAll('-', '~');
  const file = `${options.name}-${version}-1.${architecture}.rpm`;
  const directory = mkdtempSync(join(tmpdir(), 'cluster-rpm-'));
  try {
    const scripts = Object.fromEntries(
      Object.entries(options.scripts ?? {}).map(([name, from]) => [name, readFileSync(from, 'utf8')]),
    );
    withStage({ entries: options.entries, epochSeconds }, (stage) => {
      const spec = join(directory, `${options.name}.spec`);
      writeFileSync(spec, specText(options, scripts, stage));
      const define = ['--define', `_topdir ${directory}`, '--define', '_rpmfilename %{name}.rpm'];
      const argv = ['-bb', '--quiet', '--target', `${architecture}-linux`, ...define, spec];
      execFileSync('rpmbuild', argv, {
        env: {
          PATH: process.env['PATH'],
          HOME: directory,
          SOURCE_DATE_EPOCH: String(epochSeconds),
          TZ: 'UTC',
        },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
    });
    copyFileSync(join(directory, 'RPMS', `${options.name}.rpm`), resolve(dist, file));
    return resolve(dist, file);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
