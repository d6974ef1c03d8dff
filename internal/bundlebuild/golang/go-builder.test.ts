import { describe, expect, test } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elfFile, fakeProgram, FakeBuildTools, temporaryDirectory } from '../../testing/index.ts';
import { fakeBuildContext } from '../fake-build-context.ts';
import { GoBuilder, parallelism, stagingModules } from './go-builder.ts';
import type { GoModuleRecipe } from '../recipes/recipe.ts';

const ETCD: GoModuleRecipe = {
  id: 'etcd',
  from: { kind: 'modules', modules: ['go.etcd.io/etcd/server/v3@v3.6.6'] },
  programs: { etcd: 'go.etcd.io/etcd/server/v3' },
  ldflags: ['-X a=b'],
  tags: [],
  cgo: false,
};

describe('GoBuilder', () => {
  test('downloads the pinned versions, then compiles without paths, version control data or local settings', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const { builder, lines } = builderIn(workshop, directory.path);
    const prepared = await builder.prepare(ETCD);
    expect(prepared.packages).toBe(3);
    const programs = await builder.build(prepared, (line) => lines.push(line));
    const path = programs.get('etcd') ?? '';
    expect(await readFile(path, 'utf8')).toBe(fakeProgram('go.etcd.io/etcd/server/v3', '-s -w -X a=b'));
    expect(lines).toEqual(['go.etcd.io/etcd/server/v3']);
    const [get, list, build] = workshop.argumentsOf('go');
    expect(get).toEqual(['get', 'go.etcd.io/etcd/server/v3@v3.6.6']);
    expect(list?.slice(0, 2)).toEqual(['list', '-deps']);
    expect(build).toEqual(expect.arrayContaining(['build', '-trimpath']));
  });

  test('runs the go command of its own toolchain with its own environment', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    await builderIn(workshop, directory.path).builder.prepare(ETCD);
    const [command] = workshop.ran;
    expect(command?.argv[0]).toBe('/goroot/bin/go');
    expect(command?.env).toMatchObject({
      GOTOOLCHAIN: 'local',
      GOENV: 'off',
      GOFLAGS: '-mod=mod -buildvcs=false',
      GOPROXY: workshop.env.GOPROXY,
      GOMODCACHE: join(workshop.cache, 'go/mod'),
      CGO_ENABLED: '0',
    });
  });

  test('links the C parts of a program statically', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const { builder } = builderIn(workshop, directory.path);
    await builder.build(
      await builder.prepare({ ...ETCD, cgo: true, tags: ['seccomp', 'netgo'] }),
      () => undefined,
    );
    const build = workshop.ran.at(-1);
    expect(build?.env?.['CGO_ENABLED']).toBe('1');
    expect(build?.argv.join(' ')).toContain('-linkmode external -extldflags -static');
    expect(build?.argv.join(' ')).toContain('-tags seccomp,netgo');
  });

  test('compiles the tests of a package to a program, with the modules that only tests need', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const { builder, lines } = builderIn(workshop, directory.path);
    const prepared = await builder.prepare({
      ...ETCD,
      tests: { 'e2e.test': 'go.etcd.io/etcd/server/v3/e2e' },
    });
    const programs = await builder.build(prepared, (line) => lines.push(line));
    expect([...programs.keys()]).toEqual(['etcd', 'e2e.test']);
    const ran = workshop.argumentsOf('go');
    // Without a version, Go would raise the module to its newest release.
    expect(ran).toContainEqual(['get', '-t', 'go.etcd.io/etcd/server/v3/e2e@v3.6.6']);
    const compiled = ran.at(-1) ?? [];
    expect(compiled.slice(0, 3)).toEqual(['test', '-c', '-vet=off']);
    expect(compiled.slice(-3)).toEqual(['-o', programs.get('e2e.test'), 'go.etcd.io/etcd/server/v3/e2e']);
    expect(compiled).toEqual(expect.arrayContaining(['-trimpath', '-s -w -X a=b']));
  });

  test('replaces the staging modules of Kubernetes with the published modules of the same release', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const from = { kind: 'modules', modules: ['k8s.io/kubernetes@v1.35.4'] } as const;
    await builderIn(workshop, directory.path).builder.prepare({ ...ETCD, id: 'kubernetes', from });
    const edit = workshop.argumentsOf('go').find((args) => args[1] === 'edit');
    expect(edit).toEqual(['mod', 'edit', '-replace=k8s.io/api=k8s.io/api@v0.35.4']);
  });

  test('keeps the staging versions of the programs when it compiles tests, so that both share compiled packages', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const from = { kind: 'modules', modules: ['k8s.io/kubernetes@v1.35.4'] } as const;
    const tests = { 'e2e.test': 'k8s.io/kubernetes/test/e2e' };
    await builderIn(workshop, directory.path).builder.prepare({ ...ETCD, id: 'kubernetes', from, tests });
    const edit = workshop.argumentsOf('go').find((args) => args[1] === 'edit');
    expect(edit).toContain('-exclude=k8s.io/api@v0.35.4');
  });

  test('takes our own programs from this repository', async () => {
    await using directory = await temporaryDirectory();
    const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    const { builder } = builderIn(workshop, directory.path);
    const own = { ...ETCD, id: 'own', from: { kind: 'own' }, programs: { pause: 'pause' } } as const;
    const { directory: module } = await builder.prepare(own);
    expect(await readFile(join(module, 'pause/main.go'), 'utf8')).toContain('package main');
    expect(workshop.argumentsOf('go')[0]).toEqual(['list', '-deps', './pause']);
  });
});

test('stagingModules() finds modules that are replaced by a directory, in one-line and block notation', () => {
  const goMod = `module k8s.io/kubernetes
require k8s.io/api v0.0.0
replace k8s.io/client-go => ./staging/src/k8s.io/client-go
replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tgithub.com/other => ./vendor/other
)`;
  expect(stagingModules(goMod)).toEqual(['k8s.io/client-go', 'k8s.io/api']);
});

test.each([
  { cores: 8, memoryGiB: 64, want: 8 },
  { cores: 8, memoryGiB: 6, want: 3 },
  { cores: 2, memoryGiB: 24, want: 2 },
  { cores: 4, memoryGiB: 1, want: 1 },
])(
  'parallelism() is $want on a machine with $cores cores and $memoryGiB GiB',
  ({ cores, memoryGiB, want }) => {
    expect(parallelism({ cores, memoryBytes: memoryGiB * 1024 ** 3 })).toBe(want);
  },
);

function builderIn(workshop: FakeBuildTools, directory: string) {
  const context = fakeBuildContext(workshop);
  const lines: string[] = [];
  return {
    builder: new GoBuilder(context, { goroot: '/goroot', directory: join(directory, 'work') }),
    lines,
  };
}
