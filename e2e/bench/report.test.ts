import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parseReadings } from './node/idle.ts';
import { compared } from './node/node.ts';
import { parseReport, withTables } from './report.ts';
import { isWithin, median, ratioOf, type BenchReport, type BenchResult } from './result.ts';

const ROOT = join(import.meta.dirname, '../..');
const result: BenchResult = { name: 'tea', value: 1.5, unit: '×', limit: 2, detail: '3 ms; 2 ms' };
const report: BenchReport = {
  version: 1,
  suites: {
    kitchen: { measured: '2026-01-01T00:00:00Z', machine: '2 × kettle', load: [0, 1], results: [result] },
  },
};

describe('docs/bench.json', () => {
  const text = readFileSync(join(ROOT, 'docs/bench.json'), 'utf8');

  test('docs/bench.json is a valid report', () => {
    expect(() => parseReport(text)).not.toThrow();
  });

  test('docs/bench.md shows the values of docs/bench.json', () => {
    const page = readFileSync(join(ROOT, 'docs/bench.md'), 'utf8');
    expect(withTables(page, parseReport(text))).toBe(page);
  });
});

describe('parseReport()', () => {
  test('parseReport() reads a report that was written as JSON', () => {
    expect(parseReport(JSON.stringify(report))).toMatchObject(report);
  });

  test.each([
    { name: 'another version', given: { ...report, version: 2 } },
    { name: 'a report without suites', given: { version: 1 } },
    {
      name: 'a suite without a machine',
      given: { version: 1, suites: { a: { ...report.suites['kitchen'], machine: '' } } },
    },
    {
      name: 'an unknown unit',
      given: {
        version: 1,
        suites: { a: { ...report.suites['kitchen'], results: [{ ...result, unit: 'cups' }] } },
      },
    },
    {
      name: 'an unknown key',
      given: { version: 1, suites: { a: { ...report.suites['kitchen'], results: [{ ...result, x: 1 }] } } },
    },
  ])('refuses $name', ({ given }) => {
    expect(() => parseReport(JSON.stringify(given))).toThrow();
  });
});

describe('withTables()', () => {
  const page =
    'a\n<!-- bench: written by `npm run bench -- --keep`, from docs/bench.json -->\nold\n<!-- /bench -->\nz\n';

  test('withTables() replaces the text between the comments, and marks figures that missed their target', () => {
    const written = withTables(page, report);
    expect(written).toContain('| tea | 1.50 × | at most 2 × |');
    expect(written).not.toContain('old');
    expect(withTables(written, report)).toBe(written);
    const [suite] = Object.values(report.suites);
    const missed: BenchReport = {
      version: 1,
      suites: { a: { ...suite!, results: [{ ...result, value: 3 }] } },
    };
    expect(withTables(page, missed)).toContain('| **3 ×**, missed |');
  });

  test('withTables() refuses a page without the two comments', () => {
    expect(() => withTables('nothing', report)).toThrow('no comments');
  });
});

describe('figures', () => {
  test.each([
    { value: 1, wanted: 'at most', within: true },
    { value: 2.1, wanted: 'at most', within: false },
    { value: 1, wanted: 'at least', within: false },
  ] as const)(
    'isWithin() is $within for the value $value and the target "$wanted 2"',
    ({ value, wanted, within }) => {
      expect(isWithin({ ...result, value, wanted })).toBe(within);
    },
  );

  test('ratioOf() is the median of the ratios of each pair, not the ratio of the medians', () => {
    expect(ratioOf([1, 20, 3], [1, 10, 1])).toEqual({ value: 2, unit: '×', spread: [1, 3], runs: 3 });
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });

  test('the time of init is measured from the end of the boot, and the time of mini up from the start of the command', () => {
    const ours = {
      bootedMs: 2000,
      apiReadyMs: 12_000,
      answersMs: 20_000,
      cpuSeconds: 10,
      steps: { 'init-api': 10 },
    };
    const theirs = {
      bootedMs: 1000,
      programsMs: 1000,
      imagesMs: 9000,
      kubeadmMs: 10_000,
      answerMs: 4000,
      cpuSeconds: 20,
    };
    expect(compared([ours], [theirs]).map(({ value }) => value)).toEqual([0.5, 10 / 19, 0.5, 0.8, 20]);
  });

  test('parseReadings() adds the CPU time of a process and its ended children', () => {
    expect(parseReadings('bootstrapper 107 100 1 2 3 4\n')).toEqual(
      new Map([['bootstrapper', { pid: '107', anonymousBytes: 102_400, cpuSeconds: 0.1 }]]),
    );
  });
});
