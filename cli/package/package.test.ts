import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { readControl } from './deb-file.ts';
import { runPackageRepo } from './index.ts';
import { sha256Of } from './repository.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

let temporary: string;
beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), 'cluster-repo-'));
});
afterEach(() => rmSync(temporary, { recursive: true, force: true }));

function build(name: string, version: string, compression = 'zstd'): string {
  const stage = join(temporary, `stage-${name}-${version}`);
  mkdirSync(join(stage, 'DEBIAN'), { recursive: true });
  const fields = {
    Package: name,
    Version: version,
    Architecture: 'amd64',
    Maintainer: 'me <me@example.org>',
  };
  const control = Object.entries(fields).map(([key, value]) => `${key}: ${value}\n`);
  writeFileSync(join(stage, 'DEBIAN/control'), `${control.join('')}Description: ${name}\n It is good.\n`);
  const target = join(temporary, `any-name-${name}-${version}.deb`);
  execFileSync('dpkg-deb', [`-Z${compression}`, '--uniform-compression', '--build', stage, target], {
    stdio: 'ignore',
  });
  return target;
}

function contextOf(more: Readonly<Record<string, string>> = {}) {
  const env = { PATH: '/usr/bin:/bin', ...more };
  return {
    host: new RecordingHost(),
    ports: {
      files: new DiskFiles(),
      commands: new ExecaRunner({ path: env.PATH }),
      clock: new SystemClock(),
    },
    paths: { cache: temporary, data: temporary, config: temporary, workspace: temporary },
    passphrases: noPassphrases,
    env,
    signal: new AbortController().signal,
  };
}

describe('cluster package repo', () => {
  test('creates the index files of apt: Release with hashes of the index, the index with hashes of packages', async () => {
    const directory = join(temporary, 'repo');
    const debs = [build('tea', '1.0.0'), build('cup', '2.0', 'gzip')];
    const context = contextOf();
    await runPackageRepo(context, { directory, debs, key: undefined });
    const index = readFileSync(join(directory, 'Packages'), 'utf8');
    const deb = readFileSync(join(directory, 'pool/tea_1.0.0_amd64.deb'));
    expect(index).toContain(`Package: tea\nVersion: 1.0.0\n`);
    expect(index).toContain(
      `Filename: ./pool/tea_1.0.0_amd64.deb\nSize: ${deb.length}\nSHA256: ${sha256Of(deb)}\nDescription: tea\n It is good.\n`,
    );
    expect(index).toContain('Package: cup\n');
    expect(gunzipSync(readFileSync(join(directory, 'Packages.gz'))).toString()).toBe(index);
    const release = readFileSync(join(directory, 'Release'), 'utf8');
    expect(release).toContain(` ${sha256Of(Buffer.from(index))} ${index.length} Packages\n`);
    expect(release).toMatch(/^Architectures: amd64$/m);
    expect(release).toMatch(/^Date: \w{3}, \d\d \w{3} \d{4} [\d:]{8} UTC$/m);
    expect(context.host.codes).toContain('package-repo-unsigned');
  });

  test('keeps older versions when newer ones are added, and accepts the same package twice', async () => {
    const directory = join(temporary, 'repo');
    for (const version of ['1.0.0', '1.1.0', '1.1.0'])
      await runPackageRepo(contextOf(), { directory, debs: [build('tea', version)], key: undefined });
    const index = readFileSync(join(directory, 'Packages'), 'utf8');
    expect(index.match(/^Version: .*/gm)).toEqual(['Version: 1.0.0', 'Version: 1.1.0']);
  });

  test('signs with a gpg key, and exports the public key', async () => {
    const home = join(temporary, 'gpg');
    mkdirSync(home, { mode: 0o700 });
    const env = { PATH: '/usr/bin:/bin', GNUPGHOME: home };
    const quiet = [
      '--batch',
      '--passphrase',
      '',
      '--quick-generate-key',
      'ops@example.org',
      'ed25519',
      'sign',
    ];
    execFileSync('gpg', quiet, { env, stdio: 'ignore' });
    try {
      const directory = join(temporary, 'repo');
      const context = contextOf(env);
      await runPackageRepo(context, { directory, debs: [build('tea', '1')], key: 'ops@example.org' });
      execFileSync('gpg', ['--verify', join(directory, 'InRelease')], { env, stdio: 'ignore' });
      const signed = readFileSync(join(directory, 'InRelease'), 'utf8');
      expect(signed).toContain(readFileSync(join(directory, 'Release'), 'utf8').trimEnd());
      expect(readFileSync(join(directory, 'cluster.asc'), 'utf8')).toContain('BEGIN PGP PUBLIC KEY BLOCK');
      const refused = runPackageRepo(context, { directory, debs: [], key: 'nobody@example.org' });
      await expect(refused).rejects.toMatchObject({ code: 'package-sign-failed' });
      // A failed run leaves the signed index unchanged.
      expect(readFileSync(join(directory, 'InRelease'), 'utf8')).toBe(signed);
      await runPackageRepo(context, { directory, debs: [], key: undefined });
      expect(() => readFileSync(join(directory, 'InRelease'))).toThrow('ENOENT');
    } finally {
      execFileSync('gpgconf', ['--kill', 'all'], { env, stdio: 'ignore' });
    }
  });

  test('refuses an empty repository and a missing file', async () => {
    const directory = join(temporary, 'repo');
    for (const debs of [[], [join(temporary, 'none.deb')]]) {
      const made = runPackageRepo(contextOf(), { directory, debs, key: undefined });
      await expect(made).rejects.toMatchObject({ code: 'package-not-found' });
    }
  });
});

describe('readControl()', () => {
  const header = (name: string, size: string): string => `${name.padEnd(48)}${size.padEnd(10)}\`\n`;
  test.each([
    { name: 'an empty file', bytes: '' },
    { name: 'a file that is not a Debian package', bytes: 'PK\u0003\u0004' },
    { name: 'a package without a control archive', bytes: `!<arch>\n${header('debian-binary', '4')}2.0\n` },
    { name: 'a member longer than the file', bytes: `!<arch>\n${header('control.tar', '99')}x` },
    { name: 'a size that is no number', bytes: `!<arch>\n${header('control.tar', 'x')}x` },
    { name: 'an archive of an unknown kind', bytes: `!<arch>\n${header('control.tar.lz', '2')}xx` },
    { name: 'an archive that is damaged', bytes: `!<arch>\n${header('control.tar.gz', '2')}xx` },
    {
      name: 'an archive without a control file',
      bytes: `!<arch>\n${header('control.tar', '1024')}${'\0'.repeat(1024)}`,
    },
  ])('refuses $name', async ({ bytes }) => {
    await expect(readControl('/x.deb', Buffer.from(bytes, 'latin1'))).rejects.toMatchObject({
      code: 'package-damaged',
    });
  });
});
