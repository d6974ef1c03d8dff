import { resolve } from 'node:path';
import { build, type BuildOptions, type Metafile } from 'esbuild';

/** A program: its entry point in the checkout and the name of its one file. */
export interface Program {
  readonly name: string;
  readonly entry: string;
}

export const PROGRAMS: readonly Program[] = [
  { name: 'cluster', entry: 'cli/main.ts' },
  { name: 'bootstrapper', entry: 'bootstrapper/main.ts' },
  { name: 'joinservice', entry: 'joinservice/main.ts' },
  { name: 'apilb', entry: 'bootstrapper/apilb/main.ts' },
];

/** Bundled CommonJS packages call `require` for Node's own modules; ESM has none. */
const REQUIRE = `import{createRequire as __createRequire}from"node:module";const require=__createRequire(import.meta.url);`;

/** What all bundles share. The same sources give the same bytes. */
export function bundleOptions(root: string, program: Program): BuildOptions {
  return {
    absWorkingDir: root,
    entryPoints: [program.entry],
    bundle: true,
    platform: 'node',
    target: 'node24',
    minify: true,
    keepNames: true, // error classes are named in logs
    legalComments: 'none', // licenses travel in a file of their own
    sourcemap: false,
    logLevel: 'error',
    metafile: true,
  };
}

/** Bundles one program into `<dist>/<name>.mjs`: one file that needs nothing but Node. */
export async function bundleProgram(root: string, dist: string, program: Program): Promise<Metafile> {
  const { metafile } = await build({
    ...bundleOptions(root, program),
    format: 'esm',
    banner: { js: REQUIRE },
    outfile: resolve(dist, `${program.name}.mjs`),
  });
  return metafile as Metafile;
}
