import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { installCommand, parseAgentPackage } from './agent-package.ts';

const HASH = 'AB'.repeat(32);

describe('parseAgentPackage()', () => {
  test.each([
    {
      given: ['https://x.example/a.deb', HASH],
      want: { url: 'https://x.example/a.deb', sha256: HASH.toLowerCase() },
    },
    { given: ['file:///opt/a.deb', undefined], want: { url: 'file:///opt/a.deb' } },
  ] as const)('accepts $given', ({ given: [url, sha256], want }) => {
    expect(parseAgentPackage(url, sha256)).toMatchObject(want);
  });

  test.each([
    { name: 'a path of the workstation', given: ['./dist/a.deb', undefined], want: 'cloudinit-package-path' },
    {
      name: 'an absolute path of the workstation',
      given: ['/home/me/a.deb', HASH],
      want: 'cloudinit-package-path',
    },
    { name: 'another protocol', given: ['ftp://x.example/a.deb', HASH], want: 'cloudinit-package-path' },
    { name: 'plain HTTP', given: ['http://x/a.deb', HASH], want: 'cloudinit-package-invalid' },
    {
      name: 'HTTPS without a hash',
      given: ['https://x/a.deb', undefined],
      want: 'cloudinit-package-unverified',
    },
    { name: 'an invalid hash', given: ['https://x/a.deb', 'abc'], want: 'cloudinit-package-invalid' },
    { name: 'a hash without a package', given: [undefined, HASH], want: 'cloudinit-package-invalid' },
    {
      name: 'a file of another host',
      given: ['file://host/a.deb', undefined],
      want: 'cloudinit-package-invalid',
    },
    {
      name: 'a file with unusual characters in its name',
      given: ['file:///a%20b.deb', undefined],
      want: 'cloudinit-package-invalid',
    },
  ] as const)('refuses $name', ({ given: [url, sha256], want }) => {
    expect(() => parseAgentPackage(url, sha256)).toThrow(
      expect.objectContaining({ code: want, exit: 'usage' }),
    );
  });
});

/** Runs the generated script in a shell with a fake apt that records its arguments. */
describe('installCommand()', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cluster-cloud-init-'));
    await mkdir(join(directory, 'bin'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  async function program(name: string, body: string): Promise<void> {
    const path = join(directory, 'bin', name);
    await writeFile(path, `#!/bin/sh\necho "${name} $*" >> "${directory}/log"\n${body}\n`);
    await chmod(path, 0o755);
  }

  /** The recorded commands and the exit code. */
  async function run(url: string, sha256: string | undefined, machine = { hasStateDisk: false }) {
    const [shell, flags, script = '', ...args] = installCommand(parseAgentPackage(url, sha256), machine);
    const here = script
      .replaceAll('/usr/lib/apt/apt-helper', 'apt-helper')
      .replaceAll('/var/tmp/cluster-agent.deb', join(directory, 'got.deb'))
      .replaceAll('/etc/ssl/certs/ca-certificates.crt', join(directory, 'bin'));
    const { exitCode } = await new ExecaRunner({ path: `${directory}/bin:/usr/bin:/bin` }).run({
      argv: [shell ?? '', flags ?? '', here, ...args],
      okExitCodes: [0, 1, 100],
      signal: new AbortController().signal,
    });
    const log = await readFile(join(directory, 'log'), 'utf8').catch(() => '');
    return { exitCode, log: log.replaceAll(directory, '').trim().split('\n') };
  }

  const deb = Buffer.from('package');
  const hash = createHash('sha256').update(deb).digest('hex');
  beforeEach(async () => {
    await program(
      'apt-helper',
      `printf package > "$3"; [ "\${4-SHA256:${hash}}" = "SHA256:${hash}" ] || exit 100`,
    );
    await program('apt-get', '');
    await program('systemctl', '');
  });

  test('downloads with apt-helper, installs with dependencies, and starts the agent', async () => {
    const { exitCode, log } = await run('https://x.example/a.deb', hash);
    expect({ exitCode, log }).toEqual({
      exitCode: 0,
      log: [
        `apt-helper download-file https://x.example/a.deb /got.deb SHA256:${hash}`,
        'apt-get install --yes --no-install-recommends /got.deb',
        'systemctl restart bootstrapper.service',
      ],
    });
  });

  test('updates the package lists if a dependency is missing', async () => {
    await program('apt-get', '[ "$1" = update ] && touch "$0.updated"; [ -e "$0.updated" ] || exit 100');
    const { log } = await run('https://x.example/a.deb', hash);
    expect(log.slice(1)).toEqual([
      'apt-get install --yes --no-install-recommends /got.deb',
      'apt-get update',
      'apt-get install --yes --no-install-recommends /got.deb',
      'systemctl restart bootstrapper.service',
    ]);
  });

  test('installs the programs of a state disk, which the package only recommends', async () => {
    await writeFile(join(directory, 'a.deb'), deb);
    for (const [url, path] of [
      ['https://x.example/a.deb', '/got.deb'],
      [`file://${directory}/a.deb`, '/a.deb'],
    ] as const) {
      const { exitCode, log } = await run(url, hash, { hasStateDisk: true });
      expect(exitCode).toBe(0);
      expect(log.slice(-2)).toEqual([
        `apt-get install --yes --no-install-recommends ${path} cryptsetup-bin e2fsprogs`,
        'systemctl restart bootstrapper.service',
      ]);
    }
  });

  test('installs and starts nothing if the hash differs', async () => {
    const other = 'b'.repeat(64);
    const { exitCode, log } = await run('https://x.example/a.deb', other);
    expect(exitCode).not.toBe(0);
    expect(log).toEqual([`apt-helper download-file https://x.example/a.deb /got.deb SHA256:${other}`]);
  });

  test('verifies a package in the image too', async () => {
    await writeFile(join(directory, 'a.deb'), deb);
    const good = await run(`file://${directory}/a.deb`, hash);
    expect(good.log).toEqual([
      'apt-get install --yes --no-install-recommends /a.deb',
      'systemctl restart bootstrapper.service',
    ]);
    await rm(join(directory, 'log'));
    const bad = await run(`file://${directory}/a.deb`, 'c'.repeat(64));
    expect([bad.exitCode, bad.log]).toEqual([1, ['']]);
  });
});

describe('docs/examples/terraform', () => {
  test('runs the same commands as the user data of the program', async () => {
    const text = await readFile(
      join(import.meta.dirname, '../../docs/examples/terraform/provisioning/main.tf'),
      'utf8',
    );
    const local = /^ {2}install = var\.agent_package == null \? (\[.*\]) : \[\n(.*?)^ {2}\]\n/ms.exec(text);
    const [, withoutPackage = '', withPackage = ''] = local ?? [];
    const machine = { hasStateDisk: false };
    expect(JSON.parse(withoutPackage)).toEqual(installCommand(undefined, machine));
    // The heredoc, without its indentation and the escapes of HCL, and the arguments before and after it.
    const [, before, script = '', after] = /^(.*?)<<-EOT\n(.*?)^ *EOT\n(.*)$/ms.exec(withPackage) ?? [];
    const lines = script.replaceAll(/^ {4}/gm, '').replaceAll('$${', '${');
    const command = installCommand({ url: 'https://x.example/a.deb', sha256: 'ab' }, machine);
    expect(before?.trim()).toBe('"sh", "-euc",');
    expect(lines).toBe(command[2]);
    expect(after?.trim()).toBe(', "cluster-agent", var.agent_package.url, var.agent_package.sha256,');
    expect([command.slice(0, 2), command.slice(3)]).toEqual([
      ['sh', '-euc'],
      ['cluster-agent', 'https://x.example/a.deb', 'ab'],
    ]);
  });
});
