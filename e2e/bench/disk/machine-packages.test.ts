import { expect, test } from '@jest/globals';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import { temporaryDirectory } from '../../../internal/testing/index.ts';
import { fetchAdditional, packagesOfImages } from './machine-packages.ts';

test('packagesOfImages() finds each package that the guest needs, and the kernel', () => {
  const { kernel, programs } = packagesOfImages();
  expect(kernel.name).toMatch(/^linux-image-/);
  expect(programs.map(({ name }) => name)).toContain('cryptsetup-bin');
});

test('packagesOfImages() refuses a name that no package of images has', () => {
  expect(() => packagesOfImages(['libc6', 'libc7'])).toThrow('images have no package libc7');
});

test('packagesOfImages() refuses a list without a kernel', () => {
  expect(() => packagesOfImages([], { packages: [] })).toThrow('no package with a kernel');
});

test('fetchAdditional() says how to pin the newest versions when a package is missing', async () => {
  await using directory = await temporaryDirectory();
  const ports = { files: new DiskFiles(), commands: new ExecaRunner({ path: '/nonexistent' }) };
  const env = { PATH: '/nonexistent' };
  const { signal } = new AbortController();
  const fetched = fetchAdditional({ ports, env, signal, paths: { cache: directory.path } });
  await expect(fetched).rejects.toMatchObject({
    message: expect.stringContaining('`node .ci/bench-packages.ts`'),
    cause: { code: 'image-package-missing' },
  });
});
