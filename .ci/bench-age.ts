/**
 * Refuses figures in docs/bench.json that are older than the code that they describe: it may have changed for a week after it was
 * measured, because figures need a quiet machine and hours.
 *
 *     node .ci/bench-age.ts
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { DAY_MS } from '../internal/clock/index.ts';
import { parseReport } from '../e2e/bench/report.ts';
import type { SuiteName } from '../e2e/bench/suites.ts';

const ROOT = resolve(import.meta.dirname, '..');
const MAX_DAYS = 7;

/** The code whose speed or size each suite of `npm run bench` measures. */
export const DESCRIBED: Readonly<Record<SuiteName, readonly string[]>> = {
  artefacts: ['cli', 'bootstrapper', 'joinservice', 'internal', '.ci/build', 'package-lock.json'],
  start: ['cli/main.ts', 'cli/app', 'cli/answers'],
  life: ['internal/logging', 'internal/event', 'internal/supervisor', '.ci/package'],
  atls: ['internal/atls', 'internal/rpc'],
  attestation: ['internal/attestation', 'internal/tpm'],
  join: ['joinservice', 'bootstrapper/joinclient', 'internal/atls', 'internal/pki'],
  curator: ['joinservice/curator', 'joinservice/ownerdocs', 'internal/rpc', 'internal/etcd'],
  node: ['bootstrapper', 'cli/cluster', 'internal/bundle', 'internal/versions'],
  worker: ['bootstrapper', 'joinservice/join', 'internal/bundle', 'internal/versions'],
  audit: ['bootstrapper/kubernetes/apiserver'],
  disk: [
    ...['internal/luks/cryptsetup-arguments.ts', 'internal/luks/layout.ts'],
    ...['internal/statedisk/file-system.ts', 'internal/bundle/component-versions.ts'],
    ...['internal/image/packages.lock.json', 'e2e/bench/disk/packages.lock.json'],
  ],
  backup: ['bootstrapper/backup', 'internal/backup'],
  restore: ['bootstrapper/consensus', 'cli/backup', 'cli/cluster/init', 'internal/backup'],
  api: ['bootstrapper/kubernetes', 'bootstrapper/apilb', 'bootstrapper/units', 'joinservice/authzwebhook'],
};

/** When a suite was measured, and when the code that it describes last changed, in milliseconds since 1970. */
export interface SuiteAge {
  readonly suite: string;
  readonly measuredMs: number;
  readonly changedMs: number;
}

/** A sentence for each suite whose figures are too old. Pure. */
export function tooOld(ages: readonly SuiteAge[]): readonly string[] {
  return ages.flatMap(({ suite, measuredMs, changedMs }) => {
    const days = (changedMs - measuredMs) / DAY_MS;
    if (days <= MAX_DAYS) return [];
    return [
      `${suite}: the code was changed ${Math.floor(days)} days after it was measured, at most ${MAX_DAYS} allowed`,
    ];
  });
}

/** The time of the newest commit that changed one of the paths. */
function lastChangeMs(paths: readonly string[]): number {
  const times = paths.map((path) => {
    const argv = ['log', '-1', '--format=%ct', '--', path];
    const time = execFileSync('git', argv, { cwd: ROOT, encoding: 'utf8' }).trim();
    if (time === '') throw new Error(`no commit has ${path}`);
    return Number(time) * 1000;
  });
  return Math.max(...times);
}

function main(): void {
  const { suites } = parseReport(readFileSync(resolve(ROOT, 'docs/bench.json'), 'utf8'));
  const described: Readonly<Record<string, readonly string[]>> = DESCRIBED;
  const unknown = Object.keys(suites).filter((suite) => !Object.hasOwn(described, suite));
  if (unknown.length > 0) throw new Error(`no code is listed for the suite ${unknown.join(', ')}`);
  const ages = Object.entries(suites).map(([suite, { measured }]) => ({
    suite,
    measuredMs: Date.parse(measured),
    changedMs: lastChangeMs(described[suite] ?? []),
  }));
  const found = tooOld(ages);
  if (found.length === 0) return;
  process.stderr.write(`${found.join('\n')}\nMeasure again: npm run bench -- SUITE --keep\n`);
  process.exitCode = 1;
}

/** Without history, as in a shallow clone or an archive, nobody knows when a file changed. */
function hasHistory(): boolean {
  const git = (...argv: string[]): string =>
    execFileSync('git', argv, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' }).trim();
  try {
    return (
      git('rev-parse', '--is-shallow-repository') === 'false' &&
      Number(git('rev-list', '--count', 'HEAD')) > 1
    );
  } catch {
    return false;
  }
}

if (import.meta.main) {
  if (hasHistory()) main();
  else process.stdout.write('the age of the figures is not checked: this checkout has no history\n');
}
