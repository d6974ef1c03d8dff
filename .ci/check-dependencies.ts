/**
 * Checks that every dependency has its reason in ARCHITECTURE.md, and every reason its dependency. `node
 * .ci/check-dependencies.ts` prints what is missing or superfluous.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');

/** The packages and their reasons in the table below `## Dependencies`. */
export function reasonsIn(architecture: string): ReadonlyMap<string, string> {
  const section = architecture.split(/^## /m).find((each) => each.startsWith('Dependencies\n')) ?? '';
  const rows = [...section.matchAll(/^\| (.+) \| (.*) \|$/gm)].slice(1); // slice(1) skips the heading
  return new Map(
    rows.flatMap(([, names = '', reason = '']) =>
      names.split(',').map((name): [string, string] => [name.trim(), reason.trim()]),
    ),
  );
}

export function findingsOf(
  dependencies: readonly string[],
  reasons: ReadonlyMap<string, string>,
): readonly string[] {
  const missing = dependencies.filter((name) => (reasons.get(name) ?? '') === '');
  const gone = [...reasons.keys()].filter((name) => !dependencies.includes(name) && !/^-+$/.test(name));
  return [
    ...missing.map((name) => `${name} has no reason in ARCHITECTURE.md`),
    ...gone.map((name) => `ARCHITECTURE.md gives a reason for ${name}, which is no dependency`),
  ];
}

if (import.meta.main) {
  const manifest = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const architecture = readFileSync(resolve(ROOT, 'ARCHITECTURE.md'), 'utf8');
  const findings = findingsOf(Object.keys(manifest.dependencies), reasonsIn(architecture));
  for (const finding of findings) process.stderr.write(`${finding}\n`);
  if (findings.length > 0) process.exitCode = 1;
}
