/**
 * Collects every error catalogue of the three programs into `cli/app/explained-errors.json`, so that
 * `cluster help errors CODE` also explains errors of nodes, although programs never import one another.
 * `node .ci/collect-errors.ts` writes the file; with `--check` it fails when the file is stale.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { ErrorSpec } from '../internal/errors/index.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const TARGET = resolve(ROOT, 'cli/app/explained-errors.json');

/** Every error catalogue by code, sorted. Throws if two directories use the same code. */
export async function collectErrors(): Promise<Record<string, ErrorSpec & { readonly source: string }>> {
  const collected = new Map<string, ErrorSpec & { readonly source: string }>();
  for (const source of sources()) {
    const module = (await import(pathToFileURL(resolve(ROOT, source)).href)) as Record<string, unknown>;
    for (const [code, spec] of Object.values(module)
      .filter(isCatalogue)
      .flatMap(Object.entries<ErrorSpec>)) {
      const before = collected.get(code);
      if (before !== undefined) throw new Error(`${code} is used by ${before.source} and by ${source}`);
      collected.set(code, { ...spec, source });
    }
  }
  return Object.fromEntries([...collected].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function sources(): readonly string[] {
  return globSync('{cli,bootstrapper,joinservice,internal}/**/*.ts', { cwd: ROOT })
    .filter((path) => !path.endsWith('.test.ts') && !path.startsWith('internal/testing/'))
    .filter((path) => /^export const \w+ = defineErrors\(/m.test(readFileSync(resolve(ROOT, path), 'utf8')))
    .sort();
}

function isCatalogue(value: unknown): value is Record<string, ErrorSpec> {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.isFrozen(value) &&
    Object.values(value).every(
      (spec) => typeof spec === 'object' && spec !== null && 'fault' in spec && 'meaning' in spec,
    )
  );
}

if (import.meta.main) {
  const text = `${JSON.stringify(await collectErrors(), null, 2)}\n`;
  const stale = readFileSync(TARGET, { encoding: 'utf8', flag: 'a+' }) !== text;
  if (stale && process.argv.includes('--check')) {
    process.stderr.write('cli/app/explained-errors.json is stale: run `node .ci/collect-errors.ts`\n');
    process.exitCode = 1;
  } else if (stale) writeFileSync(TARGET, text);
}
