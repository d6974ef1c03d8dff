import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { test } from 'node:test';
import { ExecaRunner } from '../../internal/exec/index.ts';
import {
  hex,
  identityPolicy,
  judge,
  measuredPolicy,
  verdictOf,
} from '../attestation/measured-boot/evidence.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';

/**
 * `cluster image build` makes a disk that boots in QEMU with OVMF and a software TPM. The same inputs give the same bytes, and
 * the machine has exactly the registers that the command computed from the files.
 */
const PROJECT = join(import.meta.dirname, '../..');
const PATH = `${env['PATH'] ?? ''}:/usr/sbin:/sbin`;
const BUILD_MS = 1_200_000;
const FIRMWARE_REGISTERS = [0, 1, 2, 3, 6, 7];
const FILES = ['disk.raw', 'boot.efi', 'reference-values.json'];
const commands = new ExecaRunner({ path: PATH });
const owner = generateKeyPairSync('ed25519');

await test('an image is reproducible, boots, and has the registers that were computed from it', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-'));
  const at = (name: string): string => join(directory, name);
  const log = join(tmpdir(), 'cluster-image.log');
  const tpm = at('tpm');
  const boot = (name: string, disk: string): Promise<ImageMachine> =>
    bootImage(at(name), { disk, firmware: at('ovmf/usr/share/OVMF'), tpm, log });
  try {
    await mkdir(tpm);
    await run('swtpm_setup', '--tpm2', '--tpmstate', tpm, '--pcr-banks', 'sha256', '--create-ek-cert');
    await unpackPackages(['ovmf'], at('ovmf'));
    await run(execPath, join(PROJECT, '.ci/build.ts'));
    const ownerKey = owner.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');
    await writeFile(
      at('provisioning.json'),
      JSON.stringify({
        version: 1,
        platform: 'metal',
        ownerKeys: [ownerKey],
        tpm: { kind: 'device', path: '/dev/tpmrm0' },
        address: '198.18.200.15',
      }),
    );
    const build = (umask: string, out: string, ...more: readonly string[]): Promise<string> =>
      run(
        ...(['sh', '-c', `umask ${umask}; exec "$0" "$@"`] as const),
        ...([execPath, join(PROJECT, 'dist/cluster/main.mjs'), 'image', 'build', '--out', at(out)] as const),
        ...(['--provisioning', at('provisioning.json'), '--state-size', '1024'] as const),
        ...(['--agent', join(PROJECT, 'dist/cluster-agent_0.1.0_amd64.deb'), ...more] as const),
      );

    await story.test('two builds give the same bytes, whatever the umask', async () => {
      await build('022', 'one');
      await build('077', 'two');
      for (const name of FILES)
        assert.equal(await sha256(join(at('one'), name)), await sha256(join(at('two'), name)), name);
    });

    await story.test('other programs find a valid partition table and file system', async () => {
      const disk = join(at('one'), 'disk.raw');
      assert.match(await run('sgdisk', '--verify', disk), /No problems found/);
      assert.match(await run('sgdisk', '--info=2', disk), /name: 'cluster-state'/);
      await run('dd', `if=${disk}`, `of=${at('boot.fat')}`, 'bs=1M', 'skip=1', 'count=600');
      await run('fsck.fat', '-n', at('boot.fat'));
      for (const [path, name] of [
        ['::/EFI/BOOT/BOOTX64.EFI', 'one/boot.efi'],
        ['::/loader/credentials/provisioning.cred', 'provisioning.json'],
      ] as const) {
        await run('mcopy', '-n', '-i', `${disk}@@1M`, path, at('copied'));
        assert.equal(await sha256(at('copied')), await sha256(at(name)), path);
        await rm(at('copied'));
      }
    });

    await story.test('every register of the booted machine is the predicted one', async () => {
      await using machine = await boot('boot-1', join(at('one'), 'disk.raw'));
      const seen = verdictOf(await judge(owner.privateKey, machine.endpoint, identityPolicy()));
      for (const [pcr, value] of await readValues(at('one')))
        assert.equal(hex(seen.measurements.get(`pcr${pcr}`)), hex(value), `pcr${pcr}`);
      // The registers of the firmware are learned once. The last one, PCR 10, follows from them.
      const learned = FIRMWARE_REGISTERS.map((pcr): [string, object] => [
        `pcr${pcr}`,
        { expected: hex(seen.measurements.get(`pcr${pcr}`)) },
      ]);
      await writeFile(at('firmware.json'), JSON.stringify({ registers: Object.fromEntries(learned) }));
      await build('022', 'two', '--firmware', at('firmware.json'));
      assert.equal(await sha256(at('two/disk.raw')), await sha256(at('one/disk.raw')));
      const values = await readValues(at('two'));
      assert.deepEqual([...values.keys()], [...Array(15).keys()]);
      const judged = verdictOf(await judge(owner.privateKey, machine.endpoint, measuredPolicy(values)));
      const passed = judged.checks.filter(
        ({ name, outcome }) => name.startsWith('register-') && outcome === 'pass',
      );
      assert.equal(passed.length, values.size, 'every register was compared');
      machine.type('\nroot\n\nid\n');
      await judge(owner.privateKey, machine.endpoint, identityPolicy());
      assert.doesNotMatch(machine.console(), /login:|[Pp]assword|uid=|[#$] $/m);
    });

    await story.test('a machine with another provisioning file on its disk is refused', async () => {
      const disk = at('changed.raw');
      await run('cp', '--sparse=always', at('one/disk.raw'), disk);
      await writeFile(at('changed.json'), `${await readFile(at('provisioning.json'), 'utf8')} `);
      // prettier-ignore
      await run('mcopy', '-o', '-i', `${disk}@@1M`, at('changed.json'), '::/loader/credentials/provisioning.cred');
      await using machine = await boot('boot-2', disk);
      const values = await readValues(at('two'));
      const refused = await judge(owner.privateKey, machine.endpoint, measuredPolicy(values));
      assert.ok('code' in refused, 'the changed machine was accepted');
      assert.match(refused.code, /attestation-register-mismatch/);
      assert.equal(refused.details['register'], 'pcr9');
      const { measurements } = verdictOf(await judge(owner.privateKey, machine.endpoint, identityPolicy()));
      const different = [...values].filter(
        ([pcr, value]) => hex(measurements.get(`pcr${pcr}`)) !== hex(value),
      );
      assert.deepEqual(
        different.map(([pcr]) => pcr),
        [9, 10, 12],
      );
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});

async function readValues(directory: string): Promise<ReadonlyMap<number, Uint8Array>> {
  const text = await readFile(join(directory, 'reference-values.json'), 'utf8');
  const { registers } = JSON.parse(text) as { registers: Record<string, { expected: string }> };
  return new Map(
    Object.entries(registers).map(([name, { expected }]) => [
      Number(name.slice('pcr'.length)),
      Buffer.from(expected, 'hex'),
    ]),
  );
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function run(...argv: [string, ...string[]]): Promise<string> {
  const { stdout } = await commands.run({
    argv,
    env: { PATH, HOME: homedir() },
    timeoutMs: BUILD_MS,
    signal: new AbortController().signal,
  });
  return stdout;
}
