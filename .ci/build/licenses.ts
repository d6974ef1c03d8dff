import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Metafile } from 'esbuild';

/** The npm packages whose code is in a bundle, sorted. */
export function bundledPackages(metafile: Metafile): readonly string[] {
  const folders = Object.keys(metafile.inputs).flatMap((path) => {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    return found === undefined ? [] : [found];
  });
  return [...new Set(folders)].sort();
}

/** The license texts of everything that was bundled, as one file. A package without one is refused. */
export function licenseText(root: string, packages: readonly string[]): string {
  const parts = packages.map((folder) => {
    const manifest = JSON.parse(readFileSync(resolve(root, folder, 'package.json'), 'utf8')) as {
      readonly name: string;
      readonly version: string;
      readonly license?: string;
    };
    if (manifest.license === undefined) throw new Error(`bundling ${manifest.name}: it names no license`);
    const [file] = globSync('{LICENSE,LICENCE,license,licence}*', { cwd: resolve(root, folder) }).sort();
    const text = file === undefined ? '' : `\n${readFileSync(resolve(root, folder, file), 'utf8').trim()}\n`;
    return `${manifest.name} ${manifest.version} (${manifest.license})\n${text}`;
  });
  return parts.join(`\n${'-'.repeat(72)}\n\n`);
}
