import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import { ExecaRunner, ExecError, type Command, type CommandResult } from '../../internal/exec/index.ts';
import { ConfigError } from '../../internal/config/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import {
  fetchPackages,
  readPackageFiles,
  removeUnusedModules,
  type PackageLock,
} from '../../internal/image/index.ts';
import type { CommandContext } from '../app/command.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';
import { readFirmwareValues } from './firmware-values.ts';
import { runImageBuild } from './index.ts';

const PROVISIONING = {
  ...{ version: 1, platform: 'metal', ownerKeys: [Buffer.alloc(32, 1).toString('base64')] },
  tpm: { kind: 'device', path: '/dev/tpmrm0' },
};
const CONTENT = Buffer.from('a package');
const SHA256 = createHash('sha256').update(CONTENT).digest('hex');
const lock: PackageLock = {
  suite: 'bookworm',
  architecture: 'amd64',
  packages: [{ name: 'libc6', version: '2:1.0-1', sha256: SHA256, sizeBytes: CONTENT.length }],
};
const DISK = { stateSizeMib: 64, formats: ['raw'] as const, hardware: 'virtual' as const };
const ARCHIVE_NAME = 'libc6_2%3a1.0-1_amd64.deb';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-image-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** `download` is what apt writes into its working directory. */
function contextOf(download?: Uint8Array): CommandContext {
  const run = async ({ argv, cwd = '' }: Command): Promise<CommandResult> => {
    if (argv[0] === 'dpkg-deb') return { exitCode: 0, stdout: 'cluster-agent\n', stderr: '' };
    if (argv[0] !== 'apt-get' || download === undefined) throw new Error(`${argv[0]} failed`);
    writeFileSync(join(cwd, ARCHIVE_NAME), download);
    return Promise.resolve({ exitCode: 0, stdout: '', stderr: '' });
  };
  return {
    host: new RecordingHost(),
    ports: { files: new DiskFiles(), commands: { run }, clock: new SystemClock() },
    paths: { cache: directory, data: directory, config: directory, workspace: directory },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  };
}

const fetched = (context: CommandContext, from?: string): Promise<ReadonlyMap<string, string>> =>
  fetchPackages(context, { lock, directory: from });

describe('fetchPackages()', () => {
  test('downloads a pinned package once', async () => {
    const first = await fetched(contextOf(CONTENT));
    expect(await fetched(contextOf())).toEqual(first);
    expect(readdirSync(join(directory, 'packages'))).toEqual([`libc6_${SHA256}.deb`]);
  });

  test('takes packages from a directory of the operator', async () => {
    const from = join(directory, 'from');
    mkdirSync(from);
    await expect(fetched(contextOf(), from)).rejects.toMatchObject({ code: 'image-package-missing' });
    writeFileSync(join(from, ARCHIVE_NAME), CONTENT);
    expect([...(await fetched(contextOf(), from)).keys()]).toEqual(['libc6']);
  });

  test('refuses a download with another hash, and keeps nothing of it', async () => {
    await expect(fetched(contextOf(Buffer.from('other')))).rejects.toMatchObject({
      code: 'image-package-damaged',
    });
    expect(readdirSync(join(directory, 'packages'))).toEqual([]);
  });

  test('refuses a package in the cache that was changed', async () => {
    const path = (await fetched(contextOf(CONTENT))).get('libc6') ?? '';
    writeFileSync(path, 'changed');
    await expect(fetched(contextOf())).rejects.toMatchObject({ code: 'image-package-damaged' });
  });

  test('says that a package is missing when apt does not have it', async () => {
    await expect(fetched(contextOf())).rejects.toMatchObject({ code: 'image-package-missing' });
  });
});

test('readPackageFiles() gives the lists of modules one mode, whatever the umask of depmod was', async () => {
  const listed = join(directory, 'linux-image/lib/modules/6.1');
  mkdirSync(listed, { recursive: true });
  for (const [name, mode] of [
    ['modules.dep', 0o600],
    ['modules.order', 0o644],
    ['other', 0o640],
  ] as const)
    writeFileSync(join(listed, name), '', { mode });
  const context = contextOf();
  const commands = new ExecaRunner({ path: '/usr/bin:/bin' });
  const files = await readPackageFiles(
    { ...context, ports: { ...context.ports, commands } },
    directory,
    'linux-image',
  );
  const modes = files.entries.flatMap((entry) =>
    entry.kind === 'file' ? [[entry.path.slice('lib/modules/6.1/'.length), entry.mode]] : [],
  );
  expect(Object.fromEntries(modes)).toEqual({
    'modules.dep': 0o644,
    'modules.order': 0o644,
    other: 0o640,
  });
});

test('removeUnusedModules() keeps drivers of servers, file systems of volumes, and what they depend on', async () => {
  const kernel = 'linux-image-6.1.0-57-amd64';
  const modules = join(directory, kernel, 'lib/modules/6.1.0-57-amd64');
  const kept = {
    'kernel/drivers/char/tpm/tpm_infineon.ko': [],
    'kernel/drivers/mtd/mtd.ko': [],
    'kernel/drivers/net/ethernet/sfc/sfc.ko': ['kernel/drivers/mtd/mtd.ko'],
    'kernel/drivers/scsi/megaraid/megaraid_sas.ko': [],
    'kernel/drivers/staging/qlge/qlge.ko': [],
    'kernel/fs/ceph/ceph.ko': [],
  };
  const unused = {
    'kernel/drivers/gpu/drm/drm.ko': [],
    'kernel/drivers/mtd/nand/nand.ko': ['kernel/drivers/mtd/mtd.ko'],
    'kernel/drivers/staging/other/other.ko': [],
    'kernel/sound/core/snd.ko': [],
  };
  const all = Object.entries({ ...kept, ...unused });
  for (const [path] of all) {
    mkdirSync(join(modules, path, '..'), { recursive: true });
    writeFileSync(join(modules, path), '');
  }
  const list = all.map(([path, needs]) => `${[`${path}:`, ...needs].join(' ')}\n`);
  writeFileSync(join(modules, 'modules.dep'), list.join(''));
  await removeUnusedModules(contextOf(), directory, ['libc6', kernel]);
  const left = readdirSync(modules, { recursive: true, encoding: 'utf8' });
  expect(left.filter((path) => path.endsWith('.ko')).sort()).toEqual(Object.keys(kept));
});

describe('readFirmwareValues()', () => {
  const registers = Object.fromEntries(
    [0, 1, 2, 3, 4, 6, 7].map((pcr) => [`pcr${pcr}`, { expected: String(pcr).repeat(64) }]),
  );
  const read = (content: unknown): Promise<ReadonlyMap<number, Uint8Array>> => {
    const path = join(directory, 'firmware.json');
    writeFileSync(path, JSON.stringify(content));
    return readFirmwareValues(contextOf(), path);
  };

  test('takes the registers of the firmware, and no others', async () => {
    expect([...(await read({ registers })).keys()]).toEqual([0, 1, 2, 3, 6, 7]);
    expect(await read({ data: { registers } })).toEqual(await read({ registers }));
  });

  test.each([
    ['in which a register is missing', { registers: { ...registers, pcr7: undefined } }],
    ['with a short value', { registers: { ...registers, pcr7: { expected: '00' } } }],
    [
      'with two values',
      { registers: { ...registers, pcr7: { expected: ['7'.repeat(64), '8'.repeat(64)] } } },
    ],
    ['that contains no registers', []],
  ])('refuses a file %s', async (_, content) => {
    await expect(read(content)).rejects.toMatchObject({ code: 'image-option' });
  });
});

test.each([
  { name: 'that is no package', stdout: undefined, why: 'not a Debian package' },
  { name: 'of another package', stdout: 'bash\n', why: 'it has bash, not cluster-agent' },
])('runImageBuild() refuses an agent package $name before it downloads anything', async ({ stdout, why }) => {
  const [provisioning, agent] = ['provisioning.json', 'agent.deb'].map((name) => join(directory, name));
  writeFileSync(provisioning ?? '', JSON.stringify(PROVISIONING));
  writeFileSync(agent ?? '', 'text');
  const context = contextOf();
  const run = async ({ argv }: Command): Promise<CommandResult> => {
    expect(argv).toEqual(['dpkg-deb', '--field', agent, 'Package']);
    if (stdout === undefined)
      throw new ExecError('exec-failed', { argv, exitCode: 2, outputTail: 'no archive' });
    return { exitCode: 0, stdout, stderr: '' };
  };
  const options = { provisioning: provisioning ?? '', out: join(directory, 'out'), ...DISK };
  const all = { ...options, agent, packages: undefined, firmware: undefined };
  await expect(
    runImageBuild({ ...context, ports: { ...context.ports, commands: { run } } }, all),
  ).rejects.toMatchObject({ code: 'image-option', message: expect.stringContaining(why) as unknown });
  expect(readdirSync(directory).sort()).toEqual(['agent.deb', 'provisioning.json']);
});

test('runImageBuild() writes nothing without a provisioning file that an agent would accept', async () => {
  const provisioning = join(directory, 'provisioning.json');
  const options = { provisioning, out: join(directory, 'out'), ...DISK };
  const rest = { agent: undefined, packages: undefined, firmware: undefined };
  await expect(runImageBuild(contextOf(), { ...options, ...rest })).rejects.toMatchObject({
    code: 'image-option',
  });
  writeFileSync(provisioning, '{}');
  await expect(runImageBuild(contextOf(), { ...options, ...rest })).rejects.toBeInstanceOf(ConfigError);
  expect(readdirSync(directory)).toEqual(['provisioning.json']);
});

test('runImageBuild() deletes the files that an interrupted run left, and its own files when it fails', async () => {
  const provisioning = join(directory, 'provisioning.json');
  writeFileSync(provisioning, JSON.stringify(PROVISIONING));
  const [out, agent] = [join(directory, 'out'), join(directory, 'agent.deb')];
  writeFileSync(agent, '');
  mkdirSync(join(out, '.cluster-image-build/old'), { recursive: true });
  mkdirSync(join(out, 'work/of-the-user'), { recursive: true });
  const options = { provisioning, out, agent, packages: undefined, firmware: undefined, ...DISK };
  await expect(runImageBuild(contextOf(), options)).rejects.toMatchObject({ code: 'image-package-missing' });
  expect(readdirSync(out)).toEqual(['work']);
  expect(readdirSync(join(out, 'work'))).toEqual(['of-the-user']);
});
