import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const TALLY = resolve(import.meta.dirname, 'tally');

/** Closes a run with these counts and flaky tests. */
function closeRun(
  counts: string,
  flakyCount: number,
): { readonly code: number | null; readonly last: string | undefined } {
  const directory = mkdtempSync(join(tmpdir(), 'tally-'));
  try {
    const [countsFile, flakyFile] = [join(directory, 'counts'), join(directory, 'flaky.log')];
    writeFileSync(countsFile, counts);
    writeFileSync(flakyFile, '  FLAKY, passed only when run again: a.test.ts\n'.repeat(flakyCount));
    const script = '. "$1"; close_run "$2" "$3"';
    const { status, stdout } = spawnSync('bash', ['-c', script, 'bash', TALLY, countsFile, flakyFile], {
      encoding: 'utf8',
    });
    return { code: status, last: stdout.trim().split('\n').at(-1) };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test.each([
  {
    name: 'accepts a run without flaky tests',
    counts: '2000 0 0\n10 0 1\n',
    flaky: 0,
    code: 0,
    last: 'flaky_0: 2010 passed, 0 failed, 1 skipped',
  },
  {
    name: 'accepts one flaky test in a thousand',
    counts: '2000 0 0\n',
    flaky: 2,
    code: 0,
    last: 'flaky_2: 2000 passed, 0 failed, 0 skipped',
  },
  {
    name: 'fails a run with more than one flaky test in a thousand',
    counts: '2000 0 0\n',
    flaky: 3,
    code: 1,
    last: 'flaky_3: 2000 passed, 0 failed, 0 skipped',
  },
  {
    name: 'fails a run with a failed test',
    counts: '2000 1 0\n',
    flaky: 0,
    code: 1,
    last: 'flaky_0: 2000 passed, 1 failed, 0 skipped',
  },
  {
    name: 'fails a run without tests',
    counts: '',
    flaky: 0,
    code: 1,
    last: 'flaky_0: 0 passed, 0 failed, 0 skipped',
  },
])('the last line of .ci/run $name', ({ counts, flaky, code, last }) => {
  expect(closeRun(counts, flaky)).toEqual({ code, last });
});
