/**
 * Refuses pages with broken references: relative links, and paths of this repository in backticks. `node
 * .ci/links.ts`.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const PAGES = ['*.md', 'docs/**/*.md'];
const TOP_LEVEL = /^(cli|bootstrapper|joinservice|initproto|internal|e2e|docs|\.ci)\//;

/**
 * The targets of a page that do not exist. `exists` takes a path relative to the root of the repository.
 */
export function findBroken(page: string, text: string, exists: (path: string) => boolean): readonly string[] {
  const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => ({ target, path: join(dirname(page), target) }));
  const paths = [...text.matchAll(/`([\w./-]+)`/g)]
    .map(([, target = '']) => target)
    .filter((target) => TOP_LEVEL.test(target))
    .map((target) => ({ target, path: target }));
  return [...links, ...paths]
    .filter(({ path }) => !exists(path))
    .map(({ target }) => `${page}: ${target} does not exist`);
}

if (import.meta.main) {
  const broken = globSync(PAGES, { cwd: ROOT }).flatMap((page) =>
    findBroken(page, readFileSync(resolve(ROOT, page), 'utf8'), (path) => existsSync(resolve(ROOT, path))),
  );
  for (const line of broken) process.stderr.write(`${line}\n`);
  process.exitCode = broken.length > 0 ? 1 : 0;
}
