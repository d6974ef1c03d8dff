import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchResult } from '../result.ts';

const ROOT = join(import.meta.dirname, '../../..');
const DIST = join(ROOT, 'dist');
const MB = 1e6;

/** Measures the sizes of the last built artefacts, and counts the npm dependencies. */
export function runArtefactsBench(): Promise<readonly BenchResult[]> {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const { dependencies } = manifest;
  const sized: readonly (readonly [name: string, pattern: string, detail: string])[] = [
    ['CLI: program', 'cluster/*.mjs', 'all pieces'],
    ['CLI: piece that every start reads', 'cluster/main.mjs', 'with every help text and completion script'],
    ['agent: program', 'bootstrapper.mjs', 'one file'],
    ['joinservice: program', 'joinservice.mjs', 'one file'],
    ['API balancer: program', 'apilb.mjs', 'one file'],
    ['agent: Debian package', 'cluster-agent_*_amd64.deb', 'with its own Node, 109 MB unpacked'],
    ['CLI: Debian package', 'cluster_*_amd64.deb', 'with its own Node'],
    ['CLI: single executable', 'cluster-linux-amd64', 'Node, program and code cache'],
  ];
  const sizes = sized.flatMap(([name, pattern, detail]) => {
    const files = globSync(pattern, { cwd: DIST })
      .map((path) => join(DIST, path))
      .filter(existsSync);
    if (files.length === 0) return []; // this artefact was not built, for example without --sea
    const value = files.reduce((sum, path) => sum + statSync(path).size, 0) / MB;
    return [{ name, value, unit: 'MB', detail } as const];
  });
  const names = Object.keys(dependencies);
  return Promise.resolve([
    ...sizes,
    {
      name: 'direct dependencies',
      value: names.length,
      unit: '',
      detail: 'ARCHITECTURE.md says why of each',
    },
  ]);
}
