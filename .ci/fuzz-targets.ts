import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { NamedFuzzTarget } from '../internal/testing/fuzz.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const FILES = '{cli,bootstrapper,joinservice,internal}/**/*.fuzz.ts';

/** The targets of every `*.fuzz.ts`, by name. */
export async function loadFuzzTargets(): Promise<readonly NamedFuzzTarget[]> {
  const modules = await Promise.all(
    globSync(FILES, { cwd: ROOT }).map(
      (path) =>
        import(pathToFileURL(resolve(ROOT, path)).href) as Promise<{
          readonly targets: readonly NamedFuzzTarget[];
        }>,
    ),
  );
  return modules.flatMap(({ targets }) => targets).sort((a, b) => (a.name < b.name ? -1 : 1));
}
