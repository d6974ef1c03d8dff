import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A checkout with the script and a `node` that prints its arguments. */
let checkout: string;
beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'setup-'));
  const bin = join(checkout, 'node_modules/.bin');
  mkdirSync(bin, { recursive: true });
  mkdirSync(join(checkout, '.ci'));
  copyFileSync(join(import.meta.dirname, 'setup'), join(checkout, '.ci/setup'));
  writeFileSync(join(bin, 'node'), '#!/bin/sh\necho "node $*"\n');
  chmodSync(join(bin, 'node'), 0o755);
});
afterEach(() => rmSync(checkout, { recursive: true }));

const setUp = (...stages: readonly string[]): string =>
  execFileSync('bash', [join(checkout, '.ci/setup'), ...stages], { encoding: 'utf8' });

/** Minutes that a text promises, in its order. */
const minutesIn = (text: string): readonly string[] =>
  [...text.matchAll(/about\s+(\d+)\s+minutes/g)].map(([, minutes = '']) => minutes);

test('the stage with releases says how long it takes with and without them', () => {
  const said = setUp('releases').split('\n');
  expect(said[0]).toMatch(
    /^▸ .*about 5 minutes where the releases of upstream can be downloaded, otherwise about 15 minutes\)$/,
  );
  expect(said[1]).toBe('node cli/main.ts bundle build --use-releases');
});

test('the stage without releases, and the README, say the same minutes', () => {
  const [released, built] = minutesIn(setUp('releases').split('\n')[0] ?? '');
  expect(minutesIn(setUp('bundle').split('\n')[0] ?? '')).toEqual([built]);
  const readme = readFileSync(join(import.meta.dirname, '../README.md'), 'utf8');
  const [, quickstart = ''] = /The first quickstart\s([^]*?)It ends/.exec(readme) ?? [];
  expect(minutesIn(quickstart)).toEqual([built, released]);
});
