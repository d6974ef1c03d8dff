import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { build, transform } from 'esbuild';
import { nodeBinary, type Architecture } from './node-binary.ts';
import { bundleOptions, type Program } from './programs.ts';

/** The marker of an embedded program in the Node binary (doc/api/single-executable-applications). */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** The error has the output of a failed command. */
const QUIET = { stdio: 'pipe' } as const;

/** Replaces `import.meta` in a single executable. */
const IMPORT_META = `const __file=process.execPath,__url=require("node:url").pathToFileURL(__file).href,__dirname_=require("node:path").dirname(__file);`;

/**
 * Builds `<dist>/<name>-linux-<architecture>`, a single executable application: Node with the program and its code cache. The code cache
 * works for the architecture of this machine only.
 */
export async function buildExecutable(
  root: string,
  dist: string,
  architecture: Architecture,
  program: Program,
): Promise<string> {
  const work = mkdtempSync(join(tmpdir(), 'cluster-sea-'));
  try {
    const main = join(work, 'main.cjs');
    await bundleCommonJs(root, program, main);
    const blob = join(work, 'blob');
    const config = join(work, 'config.json');
    const flags = { disableExperimentalSEAWarning: true, useCodeCache: true, useSnapshot: false };
    writeFileSync(config, JSON.stringify({ main, output: blob, ...flags }));
    const node = nodeBinary(root, architecture);
    execFileSync(node, ['--experimental-sea-config', config], QUIET);
    const target = resolve(dist, `${program.name}-linux-${architecture}`);
    rmSync(target, { force: true });
    copyFileSync(node, target);
    const postject = resolve(root, 'node_modules/postject/dist/cli.js');
    execFileSync(node, [postject, target, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE], QUIET);
    return target;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Node 24 embeds CommonJS only, which has no top-level await: the body of the entry is moved into a function. */
async function bundleCommonJs(root: string, program: Program, outfile: string): Promise<void> {
  const entry = resolve(root, program.entry);
  const { entryPoints: _, ...shared } = bundleOptions(root, program);
  await build({
    ...shared,
    stdin: {
      contents: await wrappedEntry(entry),
      resolveDir: dirname(entry),
      sourcefile: entry,
      loader: 'js',
    },
    format: 'cjs',
    banner: { js: IMPORT_META },
    define: {
      'import.meta.url': '__url',
      'import.meta.filename': '__file',
      'import.meta.dirname': '__dirname_',
    },
    outfile,
  });
}

/** The text of an entry point, in a form that has no top-level await. */
export async function wrappedEntry(entry: string): Promise<string> {
  const { code } = await transform(readFileSync(entry, 'utf8'), { loader: 'ts', format: 'esm' });
  return wrapBody(code);
}

/** Moves everything except imports into one async function. esbuild prints the imports first, a long one in several lines. */
export function wrapBody(code: string): string {
  const source = code.replace(/^#!.*\n/, '');
  const imports = /^(?:import [^;]*;\n)*/.exec(source)?.[0] ?? '';
  const body = source.slice(imports.length);
  if (/^(import|export)[ {]/m.test(body)) {
    throw new Error('wrapping an entry point: it has an import or export after its first statement');
  }
  return `${imports}(async () => {\n${body}\n})();\n`;
}
