import assert from 'node:assert/strict';
import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { test } from 'node:test';
import {
  hex,
  identityPolicy,
  judge,
  measuredPolicy,
  verdictOf,
} from '../attestation/measured-boot/evidence.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import {
  AGENT_PACKAGE,
  ASKS_AGAIN,
  buildPrograms,
  challengeOf,
  CLI,
  cliOf,
  codeOf,
  copy,
  DISK_REGISTERS,
  failureOf,
  fingerprintOf,
  FIRMWARE_REGISTERS,
  identityOf,
  makeTpm,
  NOT_A_MEMBER,
  positionOf,
  RECOVERY,
  run,
  SHOWS_CHALLENGE,
  SLOTS,
  STATE_DEVICE,
  until,
  writeProvisioning,
} from './image-steps.ts';

/**
 * `cluster image build` makes a disk that boots in QEMU with OVMF and a software TPM. The same inputs give the same bytes, and
 * the machine has exactly the registers that the command computed from the files. Its state is on an encrypted partition, which opens
 * with this TPM and these registers only.
 */
const LOCKED = /disk-locked/;
const FILES = [
  ...['boot.efi', 'boot.iso', 'disk.qcow2', 'disk.raw', 'netboot.efi', 'reference-values-iso.json'],
  ...['reference-values-netboot.json', 'reference-values.json', 'sbom.cdx.json'],
];
const ALL_FORMATS = ['--format', 'raw,qcow2,iso,netboot'];

await test('an image is reproducible, boots with the computed registers, and keeps its state on an encrypted disk', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-image-'));
  const at = (name: string): string => join(directory, name);
  const log = join(tmpdir(), 'cluster-image.log');
  const boot = (
    name: string,
    disk: string,
    options: Partial<Parameters<typeof bootImage>[1]> = {},
  ): Promise<ImageMachine> =>
    bootImage(at(name), { disk, firmware: at('ovmf/usr/share/OVMF'), tpm: at('tpm'), log, ...options });
  const cli = cliOf(at('workspace'));
  /** Changes one byte of the provisioning file on the boot partition. */
  const changeProvisioning = async (disk: string): Promise<void> => {
    await writeFile(at('changed.json'), `${await readFile(at('provisioning.json'), 'utf8')} `);
    await writeProvisioning(disk, at('changed.json'));
  };
  try {
    for (const tpm of [at('tpm'), at('other-tpm')]) await makeTpm(tpm);
    await unpackPackages(['ovmf'], at('ovmf'));
    await buildPrograms();
    await cli('config', 'generate', '--name', 'image', '--attestation', 'tpm');
    const owner = createPrivateKey(await readFile(at('workspace/owner-key.pem'), 'utf8'));
    const ownerKey = createPublicKey(owner)
      .export({ type: 'spki', format: 'der' })
      .subarray(-32)
      .toString('base64');
    await writeFile(at('recovery.txt'), `${RECOVERY.key}\n`, { mode: 0o600 });
    await writeFile(
      at('provisioning.json'),
      JSON.stringify({
        version: 1,
        platform: 'metal',
        ownerKeys: [ownerKey],
        tpm: { kind: 'device', path: '/dev/tpmrm0' },
        address: '198.18.200.15',
        stateDisk: {
          device: STATE_DEVICE,
          pcrs: DISK_REGISTERS,
          recoveryRecipients: [RECOVERY.recipient],
        },
      }),
    );
    const build = (umask: string, out: string, ...more: readonly string[]): Promise<string> =>
      run(
        ...(['sh', '-c', `umask ${umask}; exec "$0" "$@"`] as const),
        ...([execPath, CLI, 'image', 'build', '--out', at(out)] as const),
        ...(['--provisioning', at('provisioning.json'), '--state-size', '128'] as const),
        ...(['--agent', AGENT_PACKAGE, ...more] as const),
      );

    await story.test('two builds give the same bytes, whatever the umask', async () => {
      await build('022', 'one', ...ALL_FORMATS);
      await build('077', 'two', ...ALL_FORMATS);
      assert.deepEqual((await readdir(at('one'))).sort(), FILES);
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
        ['::/EFI/Linux/cluster-1.efi', 'one/boot.efi'],
        ['::/loader/credentials/provisioning.cred', 'provisioning.json'],
      ] as const) {
        await run('mcopy', '-n', '-i', `${disk}@@1M`, path, at('copied'));
        assert.equal(await sha256(at('copied')), await sha256(at(name)), path);
        await rm(at('copied'));
      }
    });

    await story.test(
      'QEMU finds no error in the qcow2 file, and the same content as in the raw file',
      async () => {
        await run('qemu-img', 'check', '-f', 'qcow2', at('one/disk.qcow2'));
        assert.match(
          await run(
            'qemu-img',
            'compare',
            '-f',
            'raw',
            '-F',
            'qcow2',
            at('one/disk.raw'),
            at('one/disk.qcow2'),
          ),
          /Images are identical/,
        );
      },
    );

    for (const [name, values, medium] of [
      ['CD', 'reference-values-iso.json', { kind: 'cd', file: at('one/boot.iso') }],
      [
        'network',
        'reference-values-netboot.json',
        { kind: 'network', directory: at('one'), file: 'netboot.efi' },
      ],
    ] as const)
      await story.test(
        `a machine that starts from the ${name} has exactly the predicted registers`,
        async () => {
          // Another TPM: the first one is for the machine with the disk. The state is on a second disk, which is as an image makes it.
          const tpm = at(`tpm-${medium.kind}`);
          await makeTpm(tpm);
          await using machine = await boot(`boot-${medium.kind}`, at('one/disk.raw'), { tpm, medium });
          const seen = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
          const predicted = await readValues(at('one'), values);
          assert.deepEqual([...predicted.keys()], [4, 5, 8, 9, 11, 12, 13, 14]);
          for (const [pcr, value] of predicted)
            assert.equal(hex(seen.measurements.get(`pcr${pcr}`)), hex(value), `pcr${pcr}`);
        },
      );

    const used = at('used.raw');
    let fingerprint = '';

    await story.test(
      'the first boot formats the state disk, and every register is the predicted one',
      async () => {
        await copy(join(at('one'), 'disk.raw'), used);
        await using machine = await boot('boot-1', used, { keepsWrites: true });
        fingerprint = fingerprintOf(machine);
        const seen = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
        for (const [pcr, value] of await readValues(at('one')))
          assert.equal(hex(seen.measurements.get(`pcr${pcr}`)), hex(value), `pcr${pcr}`);
        // The PCR values of the firmware cannot be computed, so they are read from the first boot. PCR 10 is computed
        // from them.
        const learned = FIRMWARE_REGISTERS.map((pcr): [string, object] => [
          `pcr${pcr}`,
          { expected: hex(seen.measurements.get(`pcr${pcr}`)) },
        ]);
        await writeFile(at('firmware.json'), JSON.stringify({ registers: Object.fromEntries(learned) }));
        await build('022', 'two', '--firmware', at('firmware.json'));
        assert.equal(await sha256(at('two/disk.raw')), await sha256(at('one/disk.raw')));
        const values = await readValues(at('two'));
        assert.deepEqual([...values.keys()], [...Array(15).keys()]);
        const judged = verdictOf(await judge(owner, machine.endpoint, measuredPolicy(values)));
        const passed = judged.checks.filter(
          ({ name, outcome }) => name.startsWith('register-') && outcome === 'pass',
        );
        assert.equal(passed.length, values.size, 'every register was compared');
        machine.type('\nroot\n\nid\n');
        await judge(owner, machine.endpoint, identityPolicy());
        assert.doesNotMatch(machine.console(), /login:|[Pp]assword|uid=|[#$] $/m);
      },
    );

    await story.test('nothing that the agent has written is unencrypted on the disk', async () => {
      assert.equal(await positionOf(used, fingerprint), undefined);
      assert.equal(await positionOf(used, Buffer.from(fingerprint, 'hex')), undefined);
      assert.equal(await positionOf(used, 'PRIVATE KEY'), undefined);
      // Proves that the search works: it finds the unencrypted provisioning file, and the header of the recovery key
      // that is encrypted for the owner.
      assert.notEqual(await positionOf(used, 'ownerKeys'), undefined);
      assert.notEqual(await positionOf(used, 'clstdisk'), undefined);
    });

    await story.test('the copied disk does not open in a machine with another TPM', async () => {
      const stolen = at('stolen.raw');
      await copy(used, stolen);
      await using machine = await boot('boot-2', stolen, {
        tpm: at('other-tpm'),
        until: LOCKED,
        keepsWrites: true,
      });
      assert.doesNotMatch(machine.console(), NOT_A_MEMBER, 'the agent runs');
      assert.equal(await run('cmp', stolen, used), '', 'nothing was written');
    });

    await story.test(
      'the next boot of the machine opens the disk by itself, and has the same key',
      async () => {
        await using machine = await boot('boot-3', used, { keepsWrites: true });
        assert.equal(fingerprintOf(machine), fingerprint);
      },
    );

    await story.test(
      'a newer image that does not start is given up, and the older one starts and is confirmed',
      async () => {
        const image = await readFile(at('one/boot.efi'));
        await writeFile(at('broken.efi'), brokenImage(image));
        // As after two upgrades: the older image has not been confirmed yet, the newer one has two tries.
        await run('mren', '-i', `${used}@@1M`, `${SLOTS}/cluster-1.efi`, 'cluster-1+3.efi');
        await run('mcopy', '-i', `${used}@@1M`, at('broken.efi'), `${SLOTS}/cluster-2+2.efi`);
        await using machine = await boot('boot-slots', used, { keepsWrites: true, restarts: true });
        assert.equal(machine.console().match(/Kernel panic/g)?.length, 2);
        assert.equal(fingerprintOf(machine), fingerprint, 'the older image opens the state disk');
        // Neither the name of the file nor the other image is measured.
        verdictOf(await judge(owner, machine.endpoint, measuredPolicy(await readValues(at('one')))));
        await until('the agent confirms the older image', async () => {
          const names = await run('mdir', '-b', '-i', `${used}@@1M`, SLOTS);
          return names.includes('/cluster-1.efi') && names.includes('/cluster-2+0-2.efi');
        });
      },
    );

    await story.test(
      'with another provisioning file the disk stays closed until an owner recovers it',
      async (step) => {
        const changed = at('changed-used.raw');
        await copy(used, changed);
        await changeProvisioning(changed);
        {
          await using machine = await boot('boot-4', changed, { until: /changed: pcr/, keepsWrites: true });
          assert.match(machine.console(), /changed: pcr9, pcr12/);
          const recover = async (...flags: readonly string[]): Promise<string> =>
            cli('recover', 'disk', 'n1', '--address', machine.endpoint, ...flags);
          const known = ['--machine', await identityOf(recover)];
          assert.match(
            await failureOf(recover(...known, '--yes')),
            /backup-no-recovery-key/,
            'the owner has no key',
          );
          const withKey = [...known, '--recovery-key', at('recovery.txt')];
          assert.match(await failureOf(recover(...withKey)), /recover-disk-not-confirmed/);
          step.diagnostic(await recover(...withKey, '--yes'));
          await machine.until(new RegExp(fingerprint));
          assert.match(await recover(...known, '--dry-run'), /is open/);
        }
        // After the recovery, the machine opens the disk by itself with the changed provisioning file.
        await using machine = await boot('boot-5', changed);
        assert.equal(fingerprintOf(machine), fingerprint);
      },
    );

    await story.test(
      'without a network, a code that somebody types at the console opens the disk, and the next boot needs nobody',
      async () => {
        const changed = at('offline.raw');
        await copy(used, changed);
        await changeProvisioning(changed);
        const options = { keepsWrites: true, network: 'none' } as const;
        const codeFor = (challenge: string): Promise<string> =>
          cli('recover', 'disk', 'n1', '--console', challenge, '--recovery-key', at('recovery.txt'), '--yes');
        let earlier = '';
        {
          await using machine = await boot('boot-7', changed, { ...options, until: SHOWS_CHALLENGE });
          earlier = codeOf(await codeFor(challengeOf(machine)));
        }
        {
          await using machine = await boot('boot-8', changed, { ...options, until: SHOWS_CHALLENGE });
          assert.match(machine.console(), /changed: pcr9, pcr12/);
          const code = codeOf(await codeFor(challengeOf(machine)));
          assert.doesNotMatch(machine.console(), NOT_A_MEMBER, 'the agent runs');
          machine.type(`${earlier}\n`);
          await machine.until(/machineservice-code-refused/);
          await machine.until(ASKS_AGAIN);
          machine.type(`${code.toLowerCase()}\n`);
          await machine.until(/The state disk is open/);
          await machine.until(new RegExp(fingerprint));
        }
        await using machine = await boot('boot-9', changed, { network: 'none' });
        assert.equal(fingerprintOf(machine), fingerprint);
      },
    );

    await story.test('a machine with another provisioning file on its disk is refused', async () => {
      const disk = at('changed.raw');
      await copy(at('one/disk.raw'), disk);
      await changeProvisioning(disk);
      // Uses another TPM: the first TPM is bound to the state disk of the first machine, and would refuse the empty
      // state disk of this copy.
      await using machine = await boot('boot-6', disk, { tpm: at('other-tpm') });
      const values = await readValues(at('two'));
      const refused = await judge(owner, machine.endpoint, measuredPolicy(values));
      assert.ok('code' in refused, 'the changed machine was accepted');
      assert.match(refused.code, /attestation-register-mismatch/);
      assert.equal(refused.details['register'], 'pcr9');
      const { measurements } = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
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

/** Changes the command line: the kernel finds no first program, and restarts at once. */
function brokenImage(image: Buffer): Buffer {
  const settings = 'systemd.getty_auto=0 systemd.show_status=0';
  const at = image.indexOf(settings);
  assert.notEqual(at, -1);
  const broken = Buffer.from(image);
  broken.write('rdinit=/none panic=1'.padEnd(settings.length), at);
  return broken;
}

async function readValues(
  directory: string,
  name = 'reference-values.json',
): Promise<ReadonlyMap<number, Uint8Array>> {
  const text = await readFile(join(directory, name), 'utf8');
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
