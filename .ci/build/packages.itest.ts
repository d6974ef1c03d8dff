import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { buildDebianPackage } from './debian.ts';
import { readPackages } from './licenses.ts';
import { nodePackage } from './node-binary.ts';
import { agentPackage, cliPackage, type Formats, type PackageOptions } from './packages.ts';
import { buildRpmPackage } from './rpm.ts';
import { buildTarball } from './tarball.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const EPOCH_SECONDS = 1_767_225_600;
const PROGRAMS = ['bootstrapper', 'joinservice', 'signer', 'apilb', 'exporter', 'cluster/main'];

/** What a package installs: path → "MODE SHA256", or "MODE directory". */
type Payload = Readonly<Record<string, string>>;

interface Built {
  readonly formats: Formats;
  readonly paths: Readonly<Record<keyof Formats, string>>;
  readonly payloads: Readonly<Record<keyof Formats, Payload>>;
}

let directory: string;
let agent: Built;
let cli: Built;

/** Builds all packages as .ci/build.ts does, with the programs replaced by small files. */
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-packages-'));
  for (const name of PROGRAMS) {
    mkdirSync(join(directory, name, '..'), { recursive: true });
    writeFileSync(join(directory, `${name}.mjs`), `export const name = '${name}';\n`);
  }
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const options: PackageOptions = {
    ...{ root: ROOT, dist: directory, version: '1.0.0', architecture },
    npmPackages: readPackages(ROOT, ['node_modules/commander', nodePackage(architecture)]),
    manPages: [{ name: 'cluster.1', text: '.TH CLUSTER 1\n' }],
  };
  agent = build(agentPackage(options));
  cli = build(cliPackage(options));
}, 240_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function build(formats: Formats): Built {
  const paths = {
    deb: buildDebianPackage(directory, EPOCH_SECONDS, formats.deb),
    rpm: buildRpmPackage(directory, EPOCH_SECONDS, formats.rpm),
    tar: buildTarball(directory, EPOCH_SECONDS, formats.tar),
  };
  const root = join(directory, 'extracted', formats.deb.name);
  mkdirSync(root, { recursive: true });
  execFileSync('dpkg-deb', ['--extract', paths.deb, join(root, 'deb')]);
  mkdirSync(join(root, 'tar'));
  execFileSync('tar', ['--extract', '--preserve-permissions', '--file', paths.tar, '-C', join(root, 'tar')]);
  const payloads = {
    deb: payloadBelow(join(root, 'deb')),
    rpm: payloadOfRpm(paths.rpm),
    tar: payloadBelow(join(root, 'tar', `${formats.deb.name}-1.0.0`, 'root')),
  };
  return { formats, paths, payloads };
}

/** Debian 12 has its units in /lib, and /lib is a link to /usr/lib. */
const merged = (path: string): string => path.replace(/^\/lib\//, '/usr/lib/');

function payloadBelow(root: string): Payload {
  const found = readdirSync(root, { recursive: true, encoding: 'utf8' }).map((path) => {
    const full = join(root, path);
    const kind = lstatSync(full);
    const mode = (kind.mode & 0o7777).toString(8);
    const what = kind.isDirectory()
      ? 'directory'
      : createHash('sha256').update(readFileSync(full)).digest('hex');
    return [merged(`/${path}`), `${mode} ${what}`] as const;
  });
  return Object.fromEntries(found.filter(([path]) => path !== '/lib').sort());
}

/** What rpm will install, by the header of the package, after it has compared the payload with its digest. */
function payloadOfRpm(path: string): Payload {
  execFileSync('rpmkeys', ['--checksig', '--nosignature', path]);
  const format = '[%{FILENAMES}\t%{FILEMODES:octal}\t%{FILEDIGESTS}\t%{FILEUSERNAME}:%{FILEGROUPNAME}\n]';
  const said = execFileSync('rpm', ['--query', '--package', '--queryformat', format, path], {
    encoding: 'utf8',
  });
  const found = said
    .trim()
    .split('\n')
    .map((line) => {
      const [name = '', mode = '', digest = '', owner] = line.split('\t');
      expect({ name, owner }).toEqual({ name, owner: 'root:root' });
      const bits = (Number.parseInt(mode, 8) & 0o7777).toString(8);
      return [name, `${bits} ${digest === '' ? 'directory' : digest}`] as const;
    });
  return Object.fromEntries(found.sort());
}

const filesOf = (payload: Payload): Payload =>
  Object.fromEntries(Object.entries(payload).filter(([, what]) => !what.endsWith(' directory')));
const modeOf = (payload: Payload, path: string): string | undefined => payload[path]?.split(' ')[0];

describe('the RPM and the tarball', () => {
  test.each(['agent', 'cli'])('of the %s have the files of the Debian package, with their modes', (which) => {
    const { payloads } = which === 'agent' ? agent : cli;
    expect(Object.keys(filesOf(payloads.deb)).length).toBeGreaterThan(5);
    expect(filesOf(payloads.rpm)).toEqual(filesOf(payloads.deb));
    expect(payloads.tar).toEqual(payloads.deb);
    expect(payloads.deb).toMatchObject(payloads.rpm); // an RPM lists only directories of its own
  });

  test('of the agent have units, kernel settings, programs and licenses', () => {
    const { rpm } = agent.payloads;
    const wanted: Readonly<Record<string, string>> = {
      '/etc/cluster': '700',
      '/usr/lib/cluster/node': '755',
      '/usr/lib/cluster/bootstrapper.mjs': '644',
      '/usr/lib/cluster/joinservice.mjs': '644',
      '/usr/lib/cluster/signer.mjs': '644',
      '/usr/lib/cluster/apilb.mjs': '644',
      '/usr/lib/cluster/exporter.mjs': '644',
      '/usr/lib/cluster/purge': '755',
      '/usr/lib/systemd/system/bootstrapper.service': '644',
      '/usr/lib/systemd/system/cluster-fingerprint.service': '644',
      '/usr/lib/sysctl.d/60-cluster.conf': '644',
      '/usr/lib/modules-load.d/cluster.conf': '644',
      '/usr/share/doc/cluster-agent/copyright': '644',
      '/usr/share/doc/cluster-agent/third-party-licenses': '644',
      '/usr/share/doc/cluster-agent/sbom.cdx.json': '644',
    };
    expect(Object.fromEntries(Object.keys(wanted).map((path) => [path, modeOf(rpm, path)]))).toEqual(wanted);
  });

  test('of the CLI have the program, its Node, its manual and its licenses', () => {
    const { rpm } = cli.payloads;
    const wanted: Readonly<Record<string, string>> = {
      '/usr/bin/cluster': '755',
      '/usr/lib/cluster-cli/node': '755',
      '/usr/lib/cluster-cli/main.mjs': '644',
      '/usr/share/man/man1/cluster.1.gz': '644',
      '/usr/share/doc/cluster/copyright': '644',
      '/usr/share/doc/cluster/third-party-licenses': '644',
    };
    expect(Object.fromEntries(Object.keys(wanted).map((path) => [path, modeOf(rpm, path)]))).toEqual(wanted);
  });

  test('have an executable Node and notes on the installation', () => {
    const top = join(directory, 'extracted/cluster-agent/tar/cluster-agent-1.0.0');
    expect(execFileSync(join(top, 'root/usr/lib/cluster/node'), ['--version']).toString()).toMatch(/^v24\./);
    const notes = readFileSync(join(top, 'INSTALL'), 'utf8');
    expect(notes).toContain('systemctl');
    expect(notes).toMatch(/^ {2}\/usr\/lib\/cluster\/purge$/m);
  });
});

/** The scripts of the agent's packages, by the name that its package manager gives them. */
const SCRIPTS: Readonly<Record<string, string>> = {
  postinst: 'postinst',
  prerm: 'prerm',
  postrm: 'postrm',
  post: 'rpm-post',
  preun: 'rpm-preun',
  postun: 'rpm-postun',
  purge: 'purge',
};
const scriptPath = (name: string): string => join(ROOT, '.ci/package', SCRIPTS[name] ?? name);
/** Programs that write their name and arguments to a file. */
const RECORDED = ['systemctl', 'deb-systemd-helper', 'deb-systemd-invoke', 'userdel', 'getent'];

interface Ran {
  readonly code: number | null;
  /** What was ordered of systemd, in plain words of systemctl. */
  readonly orders: readonly string[];
  readonly left: string;
}

/**
 * Runs a script as root of a scratch machine: in a mount namespace in which /etc, /run, /var/lib, /opt, /usr/libexec and the
 * programs of systemd are its own.
 */
function runScript(name: string, args: readonly string[], data?: string): Ran {
  const scratch = mkdtempSync(join(directory, 'script-'));
  const record = join(scratch, 'record');
  writeFileSync(record, '');
  const bin = join(scratch, 'bin');
  mkdirSync(bin);
  for (const program of [...RECORDED, 'systemd-modules-load', 'systemd-sysctl'])
    writeFileSync(join(bin, program), `#!/bin/sh\necho "${program} $*" >> ${record}\n`, { mode: 0o755 });
  const setUp = [
    ...['/etc', '/run', '/var/lib', '/opt', '/usr/libexec'].map((at) => `mount -t tmpfs tmpfs ${at}`),
    `mount --bind ${bin} /usr/lib/systemd`,
    'mkdir -p /run/systemd/system /var/lib/cluster',
    ...(data === undefined ? [] : [`install -D /dev/null /var/lib/cluster/${data}`]),
    `sh ${scriptPath(name)} ${args.join(' ')}; code=$?`,
    'ls -d /var/lib/cluster',
    'exit $code',
  ];
  const { status, stdout } = spawnSync('unshare', ['--mount', 'sh', '-c', setUp.join('\n')], {
    encoding: 'utf8',
    env: { PATH: `${bin}:${process.env['PATH'] ?? ''}` },
  });
  const orders = readFileSync(record, 'utf8')
    .split('\n')
    .map((line) =>
      line
        .replace(/^(systemctl|deb-systemd-helper|deb-systemd-invoke) /, '')
        .replaceAll(/--(quiet|system) /g, ''),
    )
    .filter((line) => line !== '' && !line.startsWith('was-enabled '));
  return { code: status, orders, left: stdout.trim() };
}

describe('the scripts of the agent’s RPM', () => {
  test('are in the package as they are in this repository, and a shell can read them', () => {
    const said = execFileSync('rpm', ['--query', '--package', '--scripts', agent.paths.rpm], {
      encoding: 'utf8',
    });
    for (const name of ['post', 'preun', 'postun'])
      expect(said).toContain(readFileSync(scriptPath(name), 'utf8').trimEnd());
    for (const name of Object.keys(SCRIPTS)) execFileSync('sh', ['-n', scriptPath(name)]);
  });

  test.each([
    { what: 'an installation', rpm: [['post', '1']], deb: [['postinst', 'configure']] },
    { what: 'an upgrade', rpm: [['post', '2']], deb: [['postinst', 'configure', '0.9.0']] },
    {
      what: 'the arrival of a newer version',
      rpm: [
        ['preun', '1'],
        ['postun', '1'],
      ],
      deb: [
        ['prerm', 'upgrade', '2.0.0'],
        ['postrm', 'upgrade', '2.0.0'],
      ],
    },
    {
      what: 'a removal',
      rpm: [
        ['preun', '0'],
        ['postun', '0'],
      ],
      deb: [
        ['prerm', 'remove'],
        ['postrm', 'remove'],
      ],
    },
  ])('order the same as those of the Debian package at $what', ({ what, rpm, deb }) => {
    const ordersOf = (calls: readonly (readonly string[])[]): readonly string[] =>
      calls.flatMap(([name = '', ...args]) => {
        const ran = runScript(name, args);
        expect({ name, code: ran.code, left: ran.left }).toEqual({ name, code: 0, left: '/var/lib/cluster' });
        return ran.orders;
      });
    // Debian's helper enables only what was enabled before an upgrade; rpm does not touch it.
    const isKept = (order: string): boolean =>
      what === 'an upgrade' && order === 'enable bootstrapper.service';
    // The files of a newer RPM are there before `postun` of the older one runs.
    const isEarly = (order: string): boolean => what.startsWith('the arrival') && order === 'daemon-reload';
    const wanted = ordersOf(deb).filter((order) => !isKept(order));
    expect(wanted.length > 0).toBe(what !== 'the arrival of a newer version');
    const got = ordersOf(rpm).filter((order) => !isEarly(order));
    expect(got.toSorted()).toEqual(wanted.toSorted());
  });

  test.each(['membership/membership.json', 'enrolment/lock.json', 'reset/order.json'])(
    'refuse a removal while the machine has %s, as those of the Debian package do',
    (data) => {
      for (const [name, arg] of [
        ['preun', '0'],
        ['prerm', 'remove'],
        ['purge', ''],
      ] as const)
        expect({ name, ...runScript(name, [arg], data) }).toEqual({
          ...{ name, code: 1, orders: [] },
          left: '/var/lib/cluster',
        });
    },
  );

  test('let `purge` delete the data and the accounts that a purge of the Debian package deletes', () => {
    const deb = runScript('postrm', ['purge']);
    const other = runScript('purge', []);
    for (const { code, left } of [deb, other]) expect({ code, left }).toEqual({ code: 0, left: '' });
    expect(deb.orders).toContain('userdel cluster-signer');
    expect(other.orders).toEqual([
      'disable --now bootstrapper.service',
      ...deb.orders.filter((order) => order !== 'purge bootstrapper.service'),
    ]);
  });
});
