import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * Writes a page that is generated from the code. With `--check`, writes nothing and fails when the page on
 * disk differs. Fails in both cases when there are problems.
 */
export function publishPage(made: {
  readonly root: string;
  readonly path: string;
  readonly page: string;
  readonly problems: readonly string[];
  readonly command: string;
}): void {
  const path = resolve(made.root, made.path);
  const isStale = readFileSync(path, { encoding: 'utf8', flag: 'a+' }) !== made.page;
  const isCheck = process.argv.includes('--check');
  const stale = isStale && isCheck ? [`${made.path} is stale: run \`${made.command}\``] : [];
  const problems = [...made.problems, ...stale];
  for (const line of problems) process.stderr.write(`${line}\n`);
  if (isStale && !isCheck) writeFileSync(path, made.page);
  if (problems.length > 0) process.exitCode = 1;
}

/** Text for a cell of a Markdown table. */
export function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|');
}
