import { expect, test } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const LINE = /^(?:ci|long) \d+ (\S+?)( attacks)?$/;

test('exactly one gate of .ci runs each story', () => {
  const lines = readFileSync(resolve(ROOT, '.ci/stories'), 'utf8').trim().split('\n');
  const listed = lines.filter((line) => !line.startsWith('#')).map((line) => LINE.exec(line)?.[1]);
  expect(listed.toSorted()).toEqual(globSync('e2e/**/*.story.ts', { cwd: ROOT }).toSorted());
});

test('`npm run e2e -- attacks` runs exactly the stories that report attacks', () => {
  const lines = readFileSync(resolve(ROOT, '.ci/stories'), 'utf8').split('\n');
  const listed = lines.flatMap((line) => (line.endsWith(' attacks') ? [LINE.exec(line)?.[1]] : []));
  const reporting = globSync('e2e/**/*.story.ts', { cwd: ROOT }).filter((file) =>
    readFileSync(resolve(ROOT, file), 'utf8').includes('attack-report.ts'),
  );
  expect(listed.toSorted()).toEqual(reporting.toSorted());
});

test.each(['ci', 'long'])('the stories of %s end with the tests of pages in a real browser', (kind) => {
  const script = readFileSync(resolve(ROOT, '.ci/e2e'), 'utf8');
  const [, condition = ''] = /\nif (.*); then\n[^\n]*\n {2}run_jest browser\nfi\n/.exec(script) ?? [];
  expect(condition).toContain(`[ "$kind" = ${kind} ]`);
});
