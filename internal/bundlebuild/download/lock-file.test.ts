import { expect, test } from '@jest/globals';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFiles } from '../../file/index.ts';
import { temporaryDirectory } from '../../testing/index.ts';
import { LockFile } from './lock-file.ts';

const URL = 'https://dl.k8s.io/release/v1.35.4/bin/linux/amd64/kubelet';
const A = 'a'.repeat(64);
const B = 'b'.repeat(64);

test('LockFile.add() keeps the first hash of a file', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'bundle.lock.json');
  const first = await LockFile.open(new DiskFiles(), path);
  first.check(URL, A);
  await first.add(URL, A);
  const later = await LockFile.open(new DiskFiles(), path);
  expect(later.get(URL)).toBe(A);
  later.check(URL, A);
  expect(() => later.check(URL, B)).toThrow(
    expect.objectContaining({
      code: 'bundlebuild-source-changed',
      details: { url: URL, published: B, locked: A },
    }),
  );
});

test.each([
  '',
  '[]',
  '{"version":2,"files":{}}',
  `{"version":1,"files":{"${URL}":"abc"}}`,
  '{"version":1,"files":{"x":1}}',
])('LockFile.open() refuses a lock file with the content %j', async (text) => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'bundle.lock.json');
  await writeFile(path, text);
  await expect(LockFile.open(new DiskFiles(), path)).rejects.toMatchObject({
    code: 'bundlebuild-lock-invalid',
  });
});
