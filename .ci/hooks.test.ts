import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from '@jest/globals';

/** The exit code of the commit-msg hook for a message, and the first line of its output. */
function check(message: string): { readonly code: number | null; readonly said: string } {
  const directory = mkdtempSync(join(tmpdir(), 'commit-msg-'));
  try {
    const path = join(directory, 'message');
    writeFileSync(path, message);
    const hook = resolve(import.meta.dirname, 'hooks/commit-msg');
    const { status, stderr } = spawnSync('bash', [hook, path], { encoding: 'utf8' });
    return { code: status, said: stderr.split('\n')[0] ?? '' };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test.each([
  'etcd: refuse a second owner\n',
  'cli, docs: name the missing file\n\nThe reader could not know which one it was.\n',
  "Merge branch 'docs'\n",
])('the commit-msg hook accepts %j', (message) => {
  expect(check(message)).toEqual({ code: 0, said: '' });
});

test.each([
  { name: 'a commit subject without an area', message: 'Refuse a second owner\n', said: 'area: imperative' },
  { name: 'a commit subject of 73 characters', message: `a: ${'x'.repeat(70)}\n`, said: '73 characters' },
  { name: 'a period at the end of the commit subject', message: 'a: refuse it.\n', said: 'period' },
  {
    name: 'no empty line after the commit subject',
    message: 'a: refuse it\nbecause\n',
    said: 'must be empty',
  },
])('the commit-msg hook refuses $name', ({ message, said }) => {
  expect(check(message)).toEqual({ code: 1, said: expect.stringContaining(said) });
});
