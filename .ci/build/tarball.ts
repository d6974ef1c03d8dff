import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { withStage, type Entry } from './staging.ts';

/** A tarball and its files. */
export interface Tarball {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly entries: readonly Entry[];
  /** The text of `INSTALL`: how to install without a package manager. */
  readonly notes: string;
}

/**
 * Builds `<dist>/<name>-<version>-linux-<architecture>.tar.gz`, with the files of the package below `root/` and `INSTALL` beside it, and
 * returns its path. The same content gives the same bytes.
 */
export function buildTarball(dist: string, epochSeconds: number, options: Tarball): string {
  const { name, version, architecture, notes } = options;
  const top = `${name}-${version}`;
  const entries: Entry[] = [
    { kind: 'text', path: `/${top}/INSTALL`, mode: 0o644, text: notes },
    ...options.entries.map((entry) => ({ ...entry, path: `/${top}/root${entry.path}` })),
  ];
  const target = resolve(dist, `${top}-linux-${architecture}.tar.gz`);
  return withStage({ entries, epochSeconds }, (stage) => {
    const owner = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--format=gnu'];
    const argv = [
      '--create',
      '--use-compress-program=gzip -n -6',
      '--file',
      target,
      ...owner,
      '-C',
      stage,
      top,
    ];
    execFileSync('tar', argv, { stdio: ['ignore', 'ignore', 'inherit'] });
    return target;
  });
}
