import { createHash } from 'node:crypto';
import { fieldOf } from './deb-file.ts';

/** A package in the pool of a repository. */
export interface PooledPackage {
  readonly control: string;
  /** Relative to the directory of the repository. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** `Packages` of a flat repository (https://wiki.debian.org/DebianRepository/Format). Pure. */
export function packagesIndex(packages: readonly PooledPackage[]): string {
  return packages
    .map(({ control, path, sizeBytes, sha256 }) => {
      const fields = control.trimEnd().split('\n');
      // The description is the last field, as apt-ftparchive writes it.
      const at = fields.findIndex((line) => line.startsWith('Description:'));
      const where = [`Filename: ./${path}`, `Size: ${sizeBytes}`, `SHA256: ${sha256}`];
      const [before, after] = at < 0 ? [fields, []] : [fields.slice(0, at), fields.slice(at)];
      return `${[...before, ...where, ...after].join('\n')}\n`;
    })
    .join('\n');
}

/** `Release`: the hashes of the index files. This text is signed. Pure. */
export function releaseFile(
  packages: readonly PooledPackage[],
  indexes: Readonly<Record<string, Uint8Array>>,
  nowMs: number,
): string {
  const architectures = [...new Set(packages.map(({ control }) => fieldOf(control, 'Architecture') ?? ''))];
  const hashes = Object.entries(indexes).map(([name, bytes]) => {
    return ` ${sha256Of(bytes)} ${bytes.length} ${name}`;
  });
  return [
    'Origin: cluster',
    'Label: cluster',
    'Suite: stable',
    'Codename: stable',
    `Date: ${new Date(nowMs).toUTCString().replace('GMT', 'UTC')}`,
    `Architectures: ${architectures
      .filter((each) => each !== '' && each !== 'all')
      .sort()
      .join(' ')}`,
    'Description: packages of cluster',
    'SHA256:',
    ...hashes,
    '',
  ].join('\n');
}

/** SHA-256, lower-case hex. */
export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
