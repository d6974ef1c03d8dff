import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hex, identityPolicy, judge, verdictOf } from '../attestation/measured-boot/evidence.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import {
  buildImage,
  buildPrograms,
  cliOf,
  DISK_REGISTERS,
  fingerprintOf,
  makeTpm,
  NOT_A_MEMBER,
  run,
} from './image-steps.ts';

/**
 * An image of `--hardware server` starts on a machine with hardware of servers instead of that of virtual machines: it boots from a SATA disk, keeps its
 * state on a disk of a RAID controller, and is reached through an Intel network card.
 */
const STATE = { device: '/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_state', size: '256M' };

await test('an image for servers starts on hardware of servers, and opens its encrypted disk there again', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-server-'));
  const at = (name: string): string => join(directory, name);
  const log = join(tmpdir(), 'cluster-image-server.log');
  const boot = (name: string): Promise<ImageMachine> =>
    bootImage(at(name), {
      ...{ disk: at('image/disk.raw'), firmware: at('ovmf/usr/share/OVMF'), tpm: at('tpm'), log },
      ...{ server: { raidDisk: at('state.raw') }, keepsWrites: true, until: NOT_A_MEMBER },
    });
  try {
    await makeTpm(at('tpm'));
    await unpackPackages(['ovmf'], at('ovmf'));
    await buildPrograms();
    const cli = cliOf(at('workspace'));
    await cli('config', 'generate', '--name', 'image', '--attestation', 'tpm');
    // prettier-ignore
    await cli(
      'provisioning', 'generate', '--out', at('provisioning.json'), '--state-disk', STATE.device,
      '--state-disk-pcrs', DISK_REGISTERS.join(','), '--no-state-disk-integrity',
    );
    await buildImage(
      cli,
      { out: at('image'), provisioning: at('provisioning.json') },
      ...['--hardware', 'server', '--state-size', '64'],
    );
    await run('truncate', '--size', STATE.size, at('state.raw'));
    let fingerprint = '';

    await story.test('the first boot formats the disk, and has exactly the predicted registers', async () => {
      await using machine = await boot('boot-1');
      fingerprint = fingerprintOf(machine);
      const owner = createPrivateKey(await readFile(at('workspace/owner-key.pem'), 'utf8'));
      const seen = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
      const { registers } = JSON.parse(await readFile(at('image/reference-values.json'), 'utf8')) as {
        registers: Record<string, { expected: string }>;
      };
      assert.deepEqual(Object.keys(registers).length, 8);
      for (const [name, { expected }] of Object.entries(registers))
        assert.equal(hex(seen.measurements.get(name)), expected, name);
    });

    await story.test('after a power cut the disk opens by itself, with the same machine key', async () => {
      await using machine = await boot('boot-2');
      assert.equal(fingerprintOf(machine), fingerprint);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});
