import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Metafile } from 'esbuild';
import { createBom, packageComponent } from '../../internal/bundlebuild/index.ts';

/** The directories of the npm packages in a bundle, sorted. */
export function bundledPackages(metafile: Metafile): readonly string[] {
  const directories = Object.keys(metafile.inputs).flatMap((path) => {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    return found === undefined ? [] : [found];
  });
  return [...new Set(directories)].sort();
}

/** An npm package that is part of a program. */
export interface NpmPackage {
  /** Below the root of the checkout. */
  readonly directory: string;
  readonly name: string;
  readonly version: string;
  /** An SPDX expression. */
  readonly license: string;
}

/** What the packages of these directories say of themselves. @throws Error for a package without a license */
export function readPackages(root: string, directories: readonly string[]): readonly NpmPackage[] {
  return directories.map((directory) => {
    const { name, version, license } = JSON.parse(
      readFileSync(resolve(root, directory, 'package.json'), 'utf8'),
    ) as { readonly name: string; readonly version: string; readonly license?: string };
    if (license === undefined) throw new Error(`package ${name} has no license`);
    return { directory, name, version, license };
  });
}

/** The license texts of these packages as one file. */
export function licenseText(root: string, packages: readonly NpmPackage[]): string {
  const parts = packages.map(({ directory, name, version, license }) => {
    const [file] = globSync('{LICENSE,LICENCE,license,licence}*', { cwd: resolve(root, directory) }).sort();
    const text =
      file === undefined ? '' : `\n${readFileSync(resolve(root, directory, file), 'utf8').trim()}\n`;
    return `${name} ${version} (${license})\n${text}`;
  });
  return parts.join(`\n${'-'.repeat(72)}\n\n`);
}

/** The bill of materials of one of our packages (CycloneDX): its npm packages and its Node. */
export function packageBom(
  { name, version }: { readonly name: string; readonly version: string },
  packages: readonly NpmPackage[],
): string {
  const subject = { type: 'application', 'bom-ref': name, name, version } as const;
  return `${JSON.stringify(
    createBom(
      subject,
      packages.map((each) => packageComponent(name, 'npm', each)),
    ),
    undefined,
    2,
  )}\n`;
}
