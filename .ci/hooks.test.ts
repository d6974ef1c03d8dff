import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from '@jest/globals';

/** The exit code and the first line of what the hook says about a message. */
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
])('the hook accepts %j', (message) => {
  expect(check(message)).toEqual({ code: 0, said: '' });
});

test.each([
  { name: 'a subject without an area', message: 'Refuse a second owner\n', said: 'area: imperative' },
  { name: 'a subject of 73 characters', message: `a: ${'x'.repeat(70)}\n`, said: '73 characters' },
  { name: 'a period at the end', message: 'a: refuse it.\n', said: 'period' },
  { name: 'no empty line', message: 'a: refuse it\nbecause\n', said: 'must be empty' },
])('the hook refuses $name', ({ message, said }) => {
  expect(check(message)).toEqual({ code: 1, said: expect.stringContaining(said) });
});
