import { describe, expect, test } from '@jest/globals';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { GO_TOOLCHAIN } from '../../bundle/index.ts';
import { elfFile, FakeBuildTools, temporaryDirectory, zipArchive } from '../../testing/index.ts';
import { fakeBuildContext } from '../fake-build-context.ts';
import { ensureToolchain, goModuleHash, installToolchain, moduleProxy } from './go-toolchain.ts';
import { readZip } from '../archive/zip-reader.ts';

const PREFIX = 'golang.org/toolchain@v0.0.1-go9.linux-amd64';
const HASH_OF_TWO = 'h1:1zn7IRqpbfQAdOtczpJrKSD7cAo3qVJP6CoI5Vm+Glw=';
const progress = { update: () => undefined };

describe('goModuleHash()', () => {
  test("goModuleHash() computes Go's own module hash, over the files sorted by path", async () => {
    // Computed with sha256sum and openssl over the two lines "SHA256  PATH".
    const hashOf = (files: Record<string, string>) => goModuleHash(readZip(zipArchive(files)));
    expect(await hashOf({ 'm@v1/b': 'a', 'm@v1/a': 'b' })).toBe(HASH_OF_TWO);
    expect(await hashOf({ 'm@v1/a': 'b', 'm@v1/b': 'a' })).toBe(HASH_OF_TWO);
  });
});

describe('installToolchain()', () => {
  test('unpacks an archive with the pinned hash, makes programs executable, and restores go.mod', async () => {
    await using directory = await temporaryDirectory();
    const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
    const archive = zipArchive({
      [`${PREFIX}/bin/go`]: '#!',
      [`${PREFIX}/pkg/tool/linux_amd64/link`]: '#!',
      [`${PREFIX}/src/_go.mod`]: 'module std',
    });
    const goroot = join(directory.path, 'v0.0.1-go9.linux-amd64');
    await installToolchain(context, archive, { goroot, hash: await goModuleHash(readZip(archive)) });
    expect((await stat(join(goroot, 'bin/go'))).mode & 0o100).toBe(0o100);
    expect((await stat(join(goroot, 'pkg/tool/linux_amd64/link'))).mode & 0o100).toBe(0o100);
    expect(await readFile(join(goroot, 'src/go.mod'), 'utf8')).toBe('module std');
  });

  test.each([
    { name: 'an archive with another hash than the pinned hash', path: `${PREFIX}/bin/go`, hash: 'h1:other' },
    {
      name: 'an archive with a path outside of its directory',
      path: `${PREFIX}/../../evil`,
      hash: undefined,
    },
    {
      name: 'an archive with a path next to its directory',
      path: 'golang.org/other/bin/go',
      hash: undefined,
    },
  ])('installToolchain() refuses $name and leaves no files', async ({ path, hash }) => {
    await using directory = await temporaryDirectory();
    const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
    const archive = zipArchive({ [path]: 'x' });
    const goroot = join(directory.path, 'v0.0.1-go9.linux-amd64');
    const to = { goroot, hash: hash ?? (await goModuleHash(readZip(archive)).catch(() => '')) };
    await expect(installToolchain(context, archive, to)).rejects.toMatchObject({
      code: 'bundlebuild-toolchain',
    });
    expect(await readdir(directory.path)).toEqual([]);
  });
});

test('ensureToolchain() sends one request to the first proxy, and refuses an archive with another hash', async () => {
  await using directory = await temporaryDirectory();
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  const asked: string[] = [];
  const http = {
    get: (url: string) => {
      asked.push(url);
      return Promise.resolve({ offset: 0, body: chunksOf(zipArchive({ [`${PREFIX}/bin/go`]: 'x' })) });
    },
  };
  const fetching = ensureToolchain({ ...context, ports: { ...context.ports, http } }, progress);
  await expect(fetching).rejects.toMatchObject({ code: 'bundlebuild-toolchain' });
  expect(asked).toEqual([
    `https://proxy.invalid/golang.org/toolchain/@v/v0.0.1-go${GO_TOOLCHAIN.version}.linux-amd64.zip`,
  ]);
});

test('ensureToolchain() downloads nothing when the toolchain is in the cache', async () => {
  await using directory = await temporaryDirectory();
  const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  await workshop.installToolchain();
  const goroot = await ensureToolchain(fakeBuildContext(workshop), progress);
  expect(goroot).toBe(join(workshop.cache, `go/toolchain/v0.0.1-go${GO_TOOLCHAIN.version}.linux-amd64`));
});

test.each([
  { given: undefined, want: 'https://proxy.golang.org' },
  { given: 'direct', want: 'https://proxy.golang.org' },
  { given: 'https://a.example/go/,direct', want: 'https://a.example/go' },
  { given: 'off|http://b.example', want: 'http://b.example' },
])('moduleProxy() returns $want for GOPROXY=$given', ({ given, want }) => {
  expect(moduleProxy(given)).toBe(want);
});

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}
