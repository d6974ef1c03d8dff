import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';
import { readyModule } from './answers.ts';

/** A program to build. */
export interface Program {
  readonly name: string;
  readonly entry: string;
  /**
   * `file`: one file `<name>.mjs`, for long-running programs, whose files a package upgrade may replace
   * while they run. `directory`: `<name>/main.mjs` and chunks that it loads when needed, for programs that
   * start often.
   */
  readonly shape: 'file' | 'directory';
  /** Source files that the build writes: path in the checkout → text. */
  readonly written?: Readonly<Record<string, () => Promise<string>>>;
}

/** All programs that are built. */
export const PROGRAMS: readonly Program[] = [
  {
    name: 'cluster',
    entry: 'cli/main.ts',
    shape: 'directory',
    written: { 'cli/answers/ready.ts': readyModule },
  },
  { name: 'bootstrapper', entry: 'bootstrapper/main.ts', shape: 'file' },
  { name: 'joinservice', entry: 'joinservice/main.ts', shape: 'file' },
  { name: 'signer', entry: 'joinservice/signer/main.ts', shape: 'file' },
  { name: 'apilb', entry: 'bootstrapper/apilb/main.ts', shape: 'file' },
  { name: 'exporter', entry: 'bootstrapper/exporter/main.ts', shape: 'file' },
];

/**
 * Defines `require`: bundled CommonJS packages call it for Node's modules, and ES modules do not have it.
 */
const REQUIRE = `import{createRequire as __createRequire}from"node:module";const require=__createRequire(import.meta.url);`;

/**
 * Bundles only zod's English messages. Its messages in 44 other languages would be a tenth of a program.
 */
const ENGLISH_ONLY: Plugin = {
  name: 'zod speaks English',
  setup: (building) => {
    building.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: `export { default as en } from './en.js';`,
      loader: 'js',
    }));
  },
};

/**
 * Makes zod interpret schemas. By default it compiles each one, which takes longer than the one check that a command makes with it.
 */
const INTERPRETED: Plugin = {
  name: 'zod interprets schemas',
  setup: (building) => {
    building.onLoad({ filter: /\/zod\/v4\/core\/core\.js$/ }, ({ path }) => ({
      contents: `${readFileSync(path, 'utf8')}\nglobalConfig.jitless = true;\n`,
      loader: 'js',
    }));
  },
};

/**
 * An ESM import of node:http reads all its exports, which loads WebSocket and an HTTP client: 6 MB and 50 ms for each program that only
 * serves metrics. `getBuiltinModule` does not. Add further exports here when a program needs them.
 */
const HTTP_ALONE: Plugin = {
  name: 'node:http without its client',
  setup: (building) => {
    building.onResolve({ filter: /^node:http$/ }, ({ kind }) =>
      kind === 'import-statement' ? { path: 'node:http', namespace: 'alone' } : undefined,
    );
    building.onLoad({ filter: /^node:http$/, namespace: 'alone' }, () => ({
      contents: `export const { Agent, createServer, request } = process.getBuiltinModule('node:http');`,
      loader: 'js',
    }));
  },
};

/** The esbuild options of all programs. The same sources give the same bytes. */
export function bundleOptions(root: string, program: Program): BuildOptions {
  return {
    absWorkingDir: root,
    entryPoints: { main: program.entry },
    bundle: true,
    platform: 'node',
    target: 'node24',
    minify: true,
    keepNames: true, // of classes only: see nameClassesOnly
    legalComments: 'none', // license texts are in a separate file
    sourcemap: false,
    logLevel: 'error',
    metafile: true,
    plugins: [
      ...Object.entries(program.written ?? {}).map(([path, text]) => writtenFile(root, path, text)),
      ENGLISH_ONLY,
      ...(program.shape === 'directory' ? [INTERPRETED] : []),
      HTTP_ALONE,
    ],
  };
}

/** The entry file of a built program, relative to `dist`. */
export function programFile({ name, shape }: Program): string {
  return shape === 'file' ? `${name}.mjs` : `${name}/main.mjs`;
}

/** Bundles one program with all its packages into `dist`. */
export async function bundleProgram(root: string, dist: string, program: Program): Promise<Metafile> {
  const target = { ...bundleOptions(root, program), format: 'esm', banner: { js: REQUIRE } } as const;
  if (program.shape === 'file') {
    const { metafile } = await build({ ...target, outfile: resolve(dist, programFile(program)) });
    nameClassesOnly(resolve(dist, programFile(program)));
    return metafile as Metafile;
  }
  const made = mkdtempSync(join(dist, `${program.name}-`));
  const pieces = { splitting: true, outdir: made, outExtension: { '.js': '.mjs' } };
  const { metafile } = await build({ ...target, ...pieces, chunkNames: '[name]-[hash]' });
  for (const name of readdirSync(made)) {
    dropUnusedRequire(join(made, name));
    nameClassesOnly(join(made, name));
  }
  replaceDirectory(resolve(dist, program.name), made);
  return metafile as Metafile;
}

/** The sources that a program loads at its start: its entry and all static imports. */
export function inputsAtStart(metafile: Metafile, entry: string): readonly string[] {
  const { outputs } = metafile;
  return filesAtStart(metafile, entry)
    .flatMap((file) => Object.keys(outputs[file]?.inputs ?? {}))
    .sort();
}

/** The built files that a program loads at its start. */
export function filesAtStart({ outputs }: Metafile, entry: string): readonly string[] {
  const found = new Set(Object.keys(outputs).filter((name) => outputs[name]?.entryPoint === entry));
  for (const name of found) {
    for (const { kind, external, path } of outputs[name]?.imports ?? []) {
      if (kind === 'import-statement' && external !== true) found.add(path);
    }
  }
  return [...found];
}

/** esbuild puts a banner into every chunk. Few call `require`, and defining it in all of them takes a tenth of a short command. */
function dropUnusedRequire(path: string): void {
  const text = readFileSync(path, 'utf8');
  const code = text.replace(`${REQUIRE}\n`, '');
  if (!/\brequire\b/.test(code)) writeFileSync(path, code);
}

/** The helper of esbuild that gives each class and each function of the sources its name again. */
const NAMING = /([\w$]+)=\(([\w$]+),([\w$]+)\)=>([\w$]+\(\2,"name",\{value:\3,configurable:!0\}\))/;

/**
 * Has the helper name classes only. Errors have the name of their class, and @peculiar/asn1-schema compares names of classes. A function that
 * gets a name takes 256 bytes more, since V8 then keeps its properties in a dictionary; an agent has 12,000 of them. Only the property
 * `prototype` of a class is read-only.
 */
function nameClassesOnly(path: string): void {
  const text = readFileSync(path, 'utf8');
  const code = text.replace(
    NAMING,
    '$1=($2,$3)=>Object.getOwnPropertyDescriptor($2,"prototype")?.writable===!1?$4:$2',
  );
  if (code !== text) writeFileSync(path, code);
}

/**
 * Replaces the directory of an earlier build with renames, so that a program that starts during the
 * replacement finds all its chunks.
 */
function replaceDirectory(target: string, made: string): void {
  chmodSync(made, 0o755);
  const old = `${made}.old`;
  if (existsSync(target)) renameSync(target, old);
  renameSync(made, target);
  rmSync(old, { recursive: true, force: true });
}

function writtenFile(root: string, path: string, text: () => Promise<string>): Plugin {
  return {
    name: `writes ${path}`,
    setup: (building) => {
      const filter = new RegExp(`^${RegExp.escape(resolve(root, path))}$`);
      building.onLoad({ filter }, async () => ({ contents: await text(), loader: 'ts' }));
    },
  };
}
