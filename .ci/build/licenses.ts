import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Metafile } from 'esbuild';

/** The directories of the npm packages in a bundle, sorted. */
export function bundledPackages(metafile: Metafile): readonly string[] {
  const directories = Object.keys(metafile.inputs).flatMap((path) => {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    return found === undefined ? [] : [found];
  });
  return [...new Set(directories)].sort();
}

/** The license texts of these packages as one file. @throws Error for a package without a license */
export function licenseText(root: string, packages: readonly string[]): string {
  const parts = packages.map((directory) => {
    const manifest = JSON.parse(readFileSync(resolve(root, directory, 'package.json'), 'utf8')) as {
      readonly name: string;
      readonly version: string;
      readonly license?: string;
    };
    if (manifest.license === undefined) throw new Error(`package ${manifest.name} has no license`);
    const [file] = globSync('{LICENSE,LICENCE,license,licence}*', { cwd: resolve(root, directory) }).sort();
    const text =
      file === undefined ? '' : `\n${readFileSync(resolve(root, directory, file), 'utf8').trim()}\n`;
    return `${manifest.name} ${manifest.version} (${manifest.license})\n${text}`;
  });
  return parts.join(`\n${'-'.repeat(72)}\n\n`);
}
