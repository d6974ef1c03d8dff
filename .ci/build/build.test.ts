import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { REQUIRED_PROGRAMS } from '../../internal/preflight/index.ts';
import { collectAnswers } from './answers.ts';
import { buildDebianPackage, controlText, type DebianPackage } from './debian.ts';
import { wrapBody, wrappedEntry } from './executable.ts';
import { bundledPackages, licenseText, packageBom, readPackages } from './licenses.ts';
import { agentPackage } from './packages.ts';
import { bundleProgram, filesAtStart, inputsAtStart, PROGRAMS, type Program } from './programs.ts';
import { buildRpmPackage, specText, type RpmPackage } from './rpm.ts';
import { buildTarball } from './tarball.ts';

const ROOT = resolve(import.meta.dirname, '../..');

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-build-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function source(name: string, text: string): string {
  writeFileSync(join(directory, name), text);
  return join(directory, name);
}

describe('bundleProgram()', () => {
  test('bundles a program into one file that runs alone, with CommonJS packages, lazy imports and JSON', async () => {
    mkdirSync(join(directory, 'node_modules/old'), { recursive: true });
    source('node_modules/old/package.json', '{"name":"old","version":"1.2.3","main":"index.js"}');
    source('node_modules/old/index.js', 'module.exports = require("node:path").basename;');
    source('data.json', '{"greeting":"hello"}');
    source('lazy.ts', `export const name: string = 'lazy';`);
    source(
      'main.ts',
      `import basename from 'old';
       import data from './data.json' with { type: 'json' };
       class NamedError extends Error { readonly code = 'x'; }
       const { name } = await import('./lazy.ts');
       process.stdout.write([data.greeting, basename('/a/b'), name, NamedError.name].join());`,
    );
    const metafile = await bundleProgram(directory, join(directory, 'dist'), {
      name: 'p',
      entry: 'main.ts',
      shape: 'file',
    });
    rmSync(join(directory, 'node_modules'), { recursive: true });
    rmSync(join(directory, 'lazy.ts'));
    expect(execFileSync(process.execPath, [join(directory, 'dist/p.mjs')]).toString()).toBe(
      'hello,b,lazy,NamedError',
    );
    expect(bundledPackages(metafile)).toEqual(['node_modules/old']);
  });

  test('keeps the names of classes, and gives functions none, which would cost 256 bytes each', async () => {
    source(
      'main.ts',
      `class Refused extends Error {
         static readonly first = new Refused();
         constructor() { super(); this.name = new.target.name; }
       }
       const makes = [class Other {}].map((each) => each.name);
       const ask = (): number => Number(process.argv[9]);
       function answer(): number { return ask(); }
       process.stdout.write([Refused.first.name, makes, ask.name, answer.name, answer()].join());`,
    );
    await bundleProgram(directory, join(directory, 'dist'), { name: 'p', entry: 'main.ts', shape: 'file' });
    const said = execFileSync(process.execPath, [join(directory, 'dist/p.mjs')]).toString();
    expect(said).toMatch(/^Refused,Other,\w?,\w?,NaN$/);
    await bundleProgram(directory, join(directory, 'dist'), {
      name: 'p',
      entry: 'main.ts',
      shape: 'directory',
    });
    expect(execFileSync(process.execPath, [join(directory, 'dist/p/main.mjs')]).toString()).toBe(said);
  });

  test('bundles no HTTP client into a program that only serves HTTP', async () => {
    source(
      'main.ts',
      `import { createServer } from 'node:http';
       createServer();
       process.stdout.write(process.moduleLoadList.filter((name) => /http|undici/.test(name)).join());`,
    );
    await bundleProgram(directory, join(directory, 'dist'), { name: 'p', entry: 'main.ts', shape: 'file' });
    const loaded = execFileSync(process.execPath, [join(directory, 'dist/p.mjs')]).toString();
    expect(loaded).toContain('NativeModule _http_server');
    expect(loaded).not.toContain('undici');
  });
});

describe('a program that is a directory', () => {
  const program: Program = { name: 'p', entry: 'main.ts', shape: 'directory' };
  const files = (): Record<string, string> =>
    Object.fromEntries(
      readdirSync(join(directory, 'dist/p')).map((name) => [
        name,
        readFileSync(join(directory, 'dist/p', name), 'utf8'),
      ]),
    );

  beforeEach(() => {
    mkdirSync(join(directory, 'dist'));
    source('later.ts', `export const later: string = 'later';`);
    source('first.ts', `export const first: string = 'first';`);
    source(
      'main.ts',
      `import { first } from './first.ts';
       process.stdout.write(process.argv[2] === 'more' ? (await import('./later.ts')).later : first);`,
    );
  });

  test('loads static imports at start, and lazy imports when they are needed', async () => {
    const metafile = await bundleProgram(directory, join(directory, 'dist'), program);
    expect(inputsAtStart(metafile, 'main.ts')).toEqual(['first.ts', 'main.ts']);
    const run = (...args: string[]): string =>
      execFileSync(process.execPath, [join(directory, 'dist/p/main.mjs'), ...args]).toString();
    expect([run(), run('more')]).toEqual(['first', 'later']);
  });

  test('defines `require` only in the chunks that call it', async () => {
    mkdirSync(join(directory, 'node_modules/old'), { recursive: true });
    source('node_modules/old/index.js', 'module.exports = require("node:path").basename;');
    source('later.ts', `import basename from 'old';\nexport const later = basename('/a/b');`);
    await bundleProgram(directory, join(directory, 'dist'), program);
    const { 'main.mjs': main, ...chunks } = files();
    expect(main).not.toContain('createRequire');
    expect(Object.values(chunks).some((text) => text.includes('createRequire'))).toBe(true);
    expect(execFileSync(process.execPath, [join(directory, 'dist/p/main.mjs'), 'more']).toString()).toBe('b');
  });

  test('writes the same bytes each time, and deletes the chunks of an earlier build', async () => {
    await bundleProgram(directory, join(directory, 'dist'), program);
    const before = files();
    writeFileSync(join(directory, 'dist/p/stale.mjs'), '');
    await bundleProgram(directory, join(directory, 'dist'), program);
    expect(files()).toEqual(before);
    expect(readdirSync(join(directory, 'dist'))).toEqual(['p']);
  });

  test('uses files that the build writes instead of those in the checkout', async () => {
    const written = { 'first.ts': async () => `export const first = 'written';` };
    await bundleProgram(directory, join(directory, 'dist'), { ...program, written });
    expect(execFileSync(process.execPath, [join(directory, 'dist/p/main.mjs')]).toString()).toBe('written');
  });
});

describe('the programs that are shipped', () => {
  const bundle = (name: string) => {
    const program = PROGRAMS.find((each) => each.name === name);
    if (program === undefined) throw new Error(`no program ${name}`);
    return bundleProgram(ROOT, directory, program);
  };
  /** Shapes of objects, waits and more for the CLI; the agent only makes requests (internal/kube/client). */
  const isKubernetesClient = (path: string): boolean =>
    path.startsWith('internal/kube/') && !path.startsWith('internal/kube/client/');

  test('no command of the built cluster program loads the library that writes certificates at its start', async () => {
    const metafile = await bundle('cluster');
    const isWriter = (path: string): boolean => path.includes('/@peculiar/');
    const entries = Object.values(metafile.outputs).flatMap(({ entryPoint = '' }) => entryPoint || []);
    const loading = entries.filter((entry) => inputsAtStart(metafile, entry).some(isWriter));
    expect(loading).toEqual(['internal/crypto/x509-classes.ts']);
  });

  test('the built cluster program writes a certificate request', async () => {
    await bundle('cluster');
    const options = { cwd: directory, env: { HOME: directory, PATH: '' }, stdio: 'pipe' } as const;
    execFileSync(process.execPath, [join(directory, 'cluster/main.mjs'), 'operator', 'key', 'ann'], options);
    expect(readFileSync(join(directory, 'ann.csr'), 'utf8')).toMatch(/^-----BEGIN CERTIFICATE REQUEST-----/);
  });

  test('the cluster program interprets its schemas, which takes less time than compiling them', async () => {
    await bundle('cluster');
    const texts = readdirSync(join(directory, 'cluster')).map((name) =>
      readFileSync(join(directory, 'cluster', name), 'utf8'),
    );
    expect(texts.filter((text) => text.includes('.jitless=!0;'))).toHaveLength(1);
  });

  test('the built cluster program answers --version, --help and completion from ready texts, and loads no other file', async () => {
    const metafile = await bundle('cluster');
    expect(inputsAtStart(metafile, 'cli/main.ts')).toEqual([
      'cli/answers/index.ts',
      'cli/answers/ready-answer.ts',
      'cli/answers/ready.ts',
      'cli/main.ts',
    ]);
    expect(inputsAtStart(metafile, 'cli/app/index.ts').filter(isKubernetesClient)).toEqual([]);
    const needed = filesAtStart(metafile, 'cli/main.ts').map((path) => basename(path));
    for (const name of readdirSync(join(directory, 'cluster'))) {
      if (!needed.includes(name)) rmSync(join(directory, 'cluster', name));
    }
    const answers = await collectAnswers();
    const samples = ['', '--version', '-h', 'mini up --help', 'help init', 'completion fish'];
    for (const line of samples) {
      const args = line.split(' ').filter((word) => word !== '');
      const said = execFileSync(process.execPath, [join(directory, 'cluster/main.mjs'), ...args]).toString();
      expect({ line, text: said }).toEqual({
        line,
        text: answers.find((answer) => answer.args.join(' ') === line)?.text,
      });
    }
  });

  test('the built cluster program reports a ready answer that no command line used', async () => {
    await bundle('cluster');
    const script = `"$@" completion bash | true; echo "\${PIPESTATUS[0]}"; "$@" --help 2> /dev/null > /dev/full; echo $?`;
    const command = [process.execPath, join(directory, 'cluster/main.mjs')];
    expect(execFileSync('bash', ['-c', script, 'bash', ...command]).toString()).toBe('141\n20\n');
  });

  test('the bundle of the agent has nothing of the Kubernetes client but its requests, and only the English messages of zod', async () => {
    const { inputs } = await bundle('bootstrapper');
    // Beside them it has the code that cleans stored objects in a restore.
    const isStored = (path: string): boolean => path.startsWith('internal/kube/stored/');
    const client = Object.keys(inputs).filter(isKubernetesClient);
    expect(client.filter((path) => !isStored(path))).toEqual([]);
    expect(Object.keys(inputs).filter((path) => /zod\/v4\/locales\/(?!index)/.test(path))).toEqual([
      'node_modules/zod/v4/locales/en.js',
    ]);
  });
});

describe('collectAnswers()', () => {
  test('has the help of every command, under each of its names', async () => {
    const answers = await collectAnswers();
    const of = (...args: string[]): string | undefined =>
      answers.find((each) => each.args.join(' ') === args.join(' '))?.text;
    expect(of('mini', 'up', '--help')).toContain('--demo');
    expect(of('mini', 'up', '-h')).toBe(of('mini', 'up', '--help'));
    expect(of('help', 'mini')).toBe(of('mini', '--help'));
    expect(of()).toBe(of('--help'));
    expect(of('completion', 'bash')).toContain('complete -o default -F _cluster cluster');
  });
});

describe('licenses', () => {
  test('bundledPackages() names every package once, scoped and nested packages too', () => {
    const inputs = [
      'cli/main.ts',
      'node_modules/a/x.js',
      'node_modules/a/y.js',
      'node_modules/@s/b/node_modules/c/z.js',
    ];
    const metafile = {
      outputs: {},
      inputs: Object.fromEntries(inputs.map((path) => [path, { bytes: 0, imports: [] }])),
    };
    expect(bundledPackages(metafile)).toEqual(['node_modules/@s/b/node_modules/c', 'node_modules/a']);
  });

  test('licenseText() has the name, version, license and text of each package', () => {
    source('package.json', '{"name":"a","version":"1.0.0","license":"MIT"}');
    source('LICENSE.md', 'Do what you like.\n');
    expect(licenseText(directory, readPackages(directory, ['.']))).toBe(
      'a 1.0.0 (MIT)\n\nDo what you like.\n',
    );
  });

  test('readPackages() refuses a package that names no license', () => {
    source('package.json', '{"name":"a","version":"1.0.0"}');
    expect(() => readPackages(directory, ['.'])).toThrow('package a has no license');
  });

  test('packageBom() names every package of a program with its license', () => {
    source('package.json', '{"name":"@s/a","version":"1.0.0","license":"MIT OR Apache-2.0"}');
    const bom = packageBom({ name: 'tea', version: '0.1.0' }, readPackages(directory, ['.']));
    expect(JSON.parse(bom)).toMatchObject({
      metadata: { component: { name: 'tea', version: '0.1.0' } },
      components: [
        { name: '@s/a', purl: 'pkg:npm/%40s/a@1.0.0', licenses: [{ expression: 'MIT OR Apache-2.0' }] },
      ],
    });
  });
});

describe('wrapBody()', () => {
  test('keeps the imports and moves the rest into an async function', () => {
    const imports = 'import a from "a";\nimport "b";\nimport {\n  c,\n  d\n} from "c";\n';
    const wrapped = wrapBody(`#!/usr/bin/env node\n${imports}await a();\n`);
    expect(wrapped).toBe(`${imports}(async () => {\nawait a();\n\n})();\n`);
  });

  test.each(PROGRAMS)('wraps the entry point of $name', async ({ entry }) => {
    expect(await wrappedEntry(resolve(ROOT, entry))).toMatch(/^(import [^;]*;\n)*\(async \(\) => \{\n/);
  });

  test.each(['await a();\nimport b from "b";', 'a();\nexport const b = 1;'])('refuses %j', (code) => {
    expect(() => wrapBody(code)).toThrow('after its first statement');
  });
});

describe('Debian packages', () => {
  const content = (from: string): DebianPackage => ({
    name: 'tea',
    version: '1.0.0',
    architecture: 'all',
    summary: 'tea',
    description: 'Hot.',
    depends: ['water', 'cup (>= 2)'],
    entries: [
      { kind: 'directory', path: '/etc/tea', mode: 0o700 },
      { kind: 'copy', path: '/usr/bin/tea', mode: 0o755, from },
      { kind: 'text', path: '/usr/share/doc/tea/readme', mode: 0o644, text: 'drink' },
    ],
    scripts: { postinst: from },
  });

  test('controlText() leaves out fields that are not set', () => {
    const { entries: _entries, scripts: _scripts, ...options } = content('');
    expect(controlText(options, 7)).toMatch(
      /^Package: tea\nVersion: 1\.0\.0\n.*Installed-Size: 7\nDepends: water, cup /s,
    );
    expect(controlText(options, 7)).not.toContain('Recommends');
    expect(controlText({ ...options, recommends: ['milk'] }, 7)).toContain('Recommends: milk\n');
  });

  test('files in the package belong to root and have the given modes and one timestamp', () => {
    const target = buildDebianPackage(directory, 0, content(source('tea', '#!/bin/sh\n')));
    expect(target).toBe(resolve(directory, 'tea_1.0.0_all.deb'));
    const listed = execFileSync('dpkg-deb', ['--contents', target], {
      env: { ...process.env, TZ: 'UTC' },
    }).toString();
    const lines = listed
      .trim()
      .split('\n')
      .map((line) => line.split(/\s+/));
    expect(new Set(lines.map(([, owner]) => owner))).toEqual(new Set(['root/root']));
    expect(new Set(lines.map(([, , , date]) => date))).toEqual(new Set(['1970-01-01']));
    const modes = lines.map(([mode, , , , , path]) => `${mode} ${path}`);
    for (const wanted of [
      'drwx------ ./etc/tea/',
      'drwxr-xr-x ./usr/',
      '-rwxr-xr-x ./usr/bin/tea',
      '-rw-r--r-- ./usr/share/doc/tea/readme',
    ]) {
      expect(modes).toContain(wanted);
    }
  });

  test('packages of the same content have the same bytes, whatever the umask and the times of the sources', () => {
    const from = source('tea', '#!/bin/sh\n');
    const first = readFileSync(buildDebianPackage(directory, 1000, content(from)));
    utimesSync(from, 1, 1);
    const umask = process.umask(0o077);
    try {
      expect(readFileSync(buildDebianPackage(directory, 1000, content(from)))).toEqual(first);
    } finally {
      process.umask(umask);
    }
  });
});

describe('RPM packages', () => {
  const content = (from: string): RpmPackage => ({
    name: 'tea',
    version: '1.0.0-rc1',
    architecture: 'amd64',
    summary: 'tea',
    description: 'Hot.',
    requires: ['water', 'cup >= 2'],
    recommends: ['milk'],
    entries: [
      { kind: 'directory', path: '/etc/tea', mode: 0o700 },
      { kind: 'copy', path: '/usr/bin/tea', mode: 0o755, from },
      { kind: 'text', path: '/usr/share/doc/tea/readme', mode: 0o644, text: 'drink' },
    ],
    scripts: { post: from },
  });
  const query = (target: string, ...flags: string[]): string =>
    execFileSync('rpm', ['--query', '--package', ...flags, target], {
      env: { PATH: process.env['PATH'], TZ: 'UTC', LC_ALL: 'C' },
    }).toString();

  test("specText() names every file with its mode, and disables rpm's automatic dependencies", () => {
    const text = specText(content('x'), { post: 'true\n' }, '/stage');
    expect(text).toContain('%dir %attr(0700, root, root) /etc/tea\n%attr(0755, root, root) /usr/bin/tea\n');
    expect(text).toContain('Version: 1.0.0~rc1\n');
    expect(text).toContain('AutoReqProv: no\nRequires: water\nRequires: cup >= 2\nRecommends: milk\n');
    expect(text).toContain('%post\ntrue\n%files\n');
  });

  test('the package has the given payload, modes, dependencies and scriptlets', () => {
    const target = buildRpmPackage(directory, 0, content(source('tea', 'echo brewed\n')));
    expect(target).toBe(resolve(directory, 'tea-1.0.0~rc1-1.x86_64.rpm'));
    const format = '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEMTIMES} %{FILENAMES}\n]';
    expect(query(target, '--queryformat', format).trim().split('\n')).toEqual([
      'drwx------ root 0 /etc/tea',
      '-rwxr-xr-x root 0 /usr/bin/tea',
      '-rw-r--r-- root 0 /usr/share/doc/tea/readme',
    ]);
    expect(query(target, '--requires')).toMatch(/^cup >= 2\n(.*\n)*water\n/m);
    expect(query(target, '--scripts')).toContain('echo brewed');
    const archive = execFileSync('rpm2cpio', [target]);
    expect(archive.includes('drink')).toBe(true);
  });

  test('packages of the same content have the same bytes', () => {
    const from = source('tea', '#!/bin/sh\n');
    const first = readFileSync(buildRpmPackage(directory, 1000, content(from)));
    utimesSync(from, 1, 1);
    expect(readFileSync(buildRpmPackage(directory, 1000, content(from)))).toEqual(first);
  });
});

test('a tarball has the files below root/ and INSTALL beside it, and the same bytes each time', () => {
  const options = {
    ...{ name: 'tea', version: '1.0.0', architecture: 'amd64', notes: 'Pour.\n' },
    entries: [{ kind: 'text', path: '/etc/tea/pot', mode: 0o640, text: 'x' }],
  } as const;
  const target = buildTarball(directory, 0, options);
  expect(target).toBe(resolve(directory, 'tea-1.0.0-linux-amd64.tar.gz'));
  const listed = execFileSync('tar', ['--list', '--verbose', '--numeric-owner', '--file', target]).toString();
  expect(listed).toMatch(/-rw-r--r-- 0\/0 .* tea-1\.0\.0\/INSTALL\n/);
  expect(listed).toMatch(/-rw-r----- 0\/0 .* tea-1\.0\.0\/root\/etc\/tea\/pot\n/);
  const first = readFileSync(target);
  expect(readFileSync(buildTarball(directory, 0, options))).toEqual(first);
});

describe('the agent’s package', () => {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const { deb, rpm, tar } = agentPackage({
    root: ROOT,
    dist: '/dist',
    version: '1.0.0',
    architecture,
    npmPackages: [],
    manPages: [],
  });

  test('depends on every program without which preflight fails', () => {
    for (const { program, deb: debian, rpm: red } of REQUIRED_PROGRAMS) {
      expect({ program, deb: deb.depends.includes(debian), rpm: rpm.requires.includes(red) }).toEqual({
        program,
        deb: true,
        rpm: true,
      });
    }
  });

  test.each([deb, rpm, tar])(
    'loads the kernel modules and sets the parameters that preflight checks',
    ({ entries }) => {
      const textOf = (path: string): string => {
        const entry = entries.find((each) => each.path === path);
        return entry?.kind === 'text' ? String(entry.text) : '';
      };
      expect(textOf('/usr/lib/modules-load.d/cluster.conf')).toMatch(/^overlay\n(#.*\n)?br_netfilter\n/m);
      const parameters = textOf('/usr/lib/sysctl.d/60-cluster.conf').split('\n');
      expect(parameters).toEqual(
        expect.arrayContaining([
          '-net.ipv4.ip_forward = 1',
          '-net.bridge.bridge-nf-call-iptables = 1',
          '-net.bridge.bridge-nf-call-ip6tables = 1',
        ]),
      );
    },
  );

  test('has a script for RPM and tarball that deletes what a purge of the Debian package deletes', () => {
    const textOf = (name: string): string =>
      readFileSync(resolve(ROOT, '.ci/package', name), 'utf8').replaceAll(/^ +/gm, '');
    const [, deletion = ''] = /^deb-systemd-helper purge [^\n]*\n(.*)fi\n$/ms.exec(textOf('postrm')) ?? [];
    expect(deletion).toMatch(/rm -rf \/etc\/cluster .*userdel/s);
    expect(textOf('purge').endsWith(deletion)).toBe(true);
  });

  test('installs units in the unit directory of each distribution', () => {
    const unit = ({ entries }: { entries: readonly { path: string }[] }): string | undefined =>
      entries.find(({ path }) => path.endsWith('/bootstrapper.service'))?.path;
    expect([deb, rpm, tar].map(unit)).toEqual([
      '/lib/systemd/system/bootstrapper.service',
      '/usr/lib/systemd/system/bootstrapper.service',
      '/usr/lib/systemd/system/bootstrapper.service',
    ]);
  });
});
