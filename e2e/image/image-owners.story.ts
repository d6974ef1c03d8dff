import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ExecError } from '../../internal/exec/index.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import {
  ASKS_AGAIN,
  buildImage,
  buildPrograms,
  challengeOf,
  cliOf,
  codeOf,
  DISK_REGISTERS,
  fingerprintOf,
  identityOf,
  makeTpm,
  NOT_A_MEMBER,
  RECOVERY,
  SHOWS_CHALLENGE,
  STATE_DEVICE,
  writeProvisioning,
} from './image-steps.ts';

/**
 * Two of two owners recover the state disk of a machine with an image together: one over the network, the other one at the console. One alone opens
 * nothing, nor do the owners of another cluster.
 */
const ADDRESS = '198.18.200.15';
/** The exit code of a command that has done its part. */
const PARTIAL = 7;

await test('two owners open a state disk together, one over the network and one at the console', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-'));
  const at = (name: string): string => join(directory, name);
  const log = join(tmpdir(), 'cluster-image-owners.log');
  const boot = (name: string, until: RegExp): Promise<ImageMachine> =>
    bootImage(at(name), {
      ...{ disk: at('image/disk.raw'), firmware: at('ovmf/usr/share/OVMF'), tpm: at('tpm'), log },
      ...{ keepsWrites: true, until },
    });
  const cli = cliOf(at('workspace'));
  const others = cliOf(at('others'));
  let fingerprint = '';
  try {
    await makeTpm(at('tpm'));
    await unpackPackages(['ovmf'], at('ovmf'));
    await buildPrograms();
    for (const each of [cli, others])
      await each('config', 'generate', '--name', 'image', '--attestation', 'tpm');
    await writeFile(at('recovery.txt'), `${RECOVERY.key}\n`, { mode: 0o600 });
    // prettier-ignore
    await cli(
      'provisioning', 'generate', '--out', at('provisioning.json'), '--address', ADDRESS, '--state-disk', STATE_DEVICE,
      '--state-disk-pcrs', DISK_REGISTERS.join(','), '--recovery-recipient', RECOVERY.recipient, '--recovery-threshold', '2',
    );
    const image = { out: at('image'), provisioning: at('provisioning.json') };
    await buildImage(cli, image, '--state-size', '128');

    await story.test('the first boot formats the disk', async () => {
      await using machine = await boot('boot-1', NOT_A_MEMBER);
      fingerprint = fingerprintOf(machine);
    });

    await writeFile(at('changed.json'), `${await readFile(at('provisioning.json'), 'utf8')} `);
    await writeProvisioning(at('image/disk.raw'), at('changed.json'));

    await story.test('with another provisioning file, each owner has to act', async () => {
      await using machine = await boot('boot-2', SHOWS_CHALLENGE);
      assert.match(machine.console(), /changed: pcr9, pcr12/);
      const recover = (...flags: readonly string[]): Promise<string> =>
        cli('recover', 'disk', 'n1', '--address', machine.endpoint, ...flags);
      const known = ['--machine', await identityOf(recover)];
      const codeFrom = async (owner: typeof cli, ...flags: readonly string[]): Promise<string> =>
        codeOf(await owner('recover', 'disk', 'n1', '--console', challengeOf(machine), '--yes', ...flags));

      // The same owner twice counts once.
      for (const _ of ['once', 'twice'])
        await assert.rejects(
          recover(...known, '--yes'),
          (error) => error instanceof ExecError && error.exitCode === PARTIAL,
        );
      assert.match(await recover(...known, '--dry-run'), /2 of its 2 owners.*has 1 of them/);
      machine.type(`${await codeFrom(others)}\n`);
      await machine.until(/machineservice-code-refused/);
      await machine.until(ASKS_AGAIN);
      assert.doesNotMatch(machine.console(), NOT_A_MEMBER, 'the agent runs');
      machine.type(`${await codeFrom(cli, '--recovery-key', at('recovery.txt'))}\n`);
      await machine.until(/The state disk is open/);
      await machine.until(new RegExp(fingerprint));
    });

    await story.test('after the recovery the disk opens by itself', async () => {
      await using machine = await boot('boot-3', NOT_A_MEMBER);
      assert.equal(fingerprintOf(machine), fingerprint);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});
