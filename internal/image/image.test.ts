import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { CpioEntry } from './cpio.ts';
import { imageFiles } from './image-files.ts';
import { parsePackageLock, pinnedPackages } from './package-lock.ts';
import { FIRMWARE_REGISTERS, predictRegisters, withFirmware, type MeasuredImage } from './registers.ts';
import { createRootTree } from './root-tree.ts';

/** Where the agent listens (bootstrapper/machineservice). */
const AGENT_SOCKET = '/run/cluster/agent.sock';
/** What the agent creates while it waits for its cluster share (bootstrapper/agent/statedisk). */
const AWAITS_SHARE = '/run/cluster/locked-disk/awaits-share';
const file = (path: string, text = ''): CpioEntry => {
  return { kind: 'file', path, mode: 0o644, content: Buffer.from(text) };
};
const directory = (path: string): CpioEntry => ({ kind: 'directory', path, mode: 0o755 });

describe('createRootTree()', () => {
  test('puts the directories that Debian has merged below /usr, parents first, and replaces files by ours', () => {
    const tree = createRootTree(
      [
        { name: 'a', entries: [directory('bin'), file('bin/one'), file('etc/x', 'package')] },
        { name: 'b', entries: [directory('usr/bin'), file('usr/bin/two')] },
      ],
      [file('etc/x', 'ours')],
    );
    expect(tree.map(({ path }) => path)).toEqual(
      'bin etc etc/x lib lib64 sbin usr usr/bin usr/bin/one usr/bin/two'.split(' '),
    );
    expect(tree[0]).toEqual({ kind: 'symlink', path: 'bin', target: 'usr/bin' });
    expect(tree[2]).toEqual(file('etc/x', 'ours'));
  });

  test('drops manuals and login programs, and keeps licences', () => {
    const entries = ['usr/share/man/man1/a.1', 'usr/share/doc/a/README', 'sbin/agetty', 'bin/su'].map(
      (path) => file(path),
    );
    const licence = 'usr/share/doc/a/copyright';
    const tree = createRootTree([{ name: 'a', entries: [...entries, file(licence)] }], []);
    expect(tree.filter(({ kind }) => kind === 'file').map(({ path }) => path)).toEqual([licence]);
  });

  test('drops set-user-id bits', () => {
    const mount: CpioEntry = { kind: 'file', path: 'bin/mount', mode: 0o4755, content: Buffer.from('') };
    const tree = createRootTree([{ name: 'a', entries: [mount] }], []);
    expect(tree).toContainEqual({ ...mount, path: 'usr/bin/mount', mode: 0o755 });
  });

  test('refuses a file that two packages contain', () => {
    const packages = ['a', 'b'].map((name) => ({ name, entries: [file('bin/one')] }));
    expect(() => createRootTree(packages, [])).toThrow(expect.objectContaining({ code: 'image-tree' }));
  });

  test.each(['bin/sh', 'usr/bin/bash', 'usr/sbin/sshd', 'bin/busybox', 'usr/local/bin/zsh'])(
    'refuses %s',
    (path) => {
      const shell = expect.objectContaining({ code: 'image-shell' });
      expect(() => createRootTree([{ name: 'a', entries: [file(path)] }], [])).toThrow(
        'the image would contain',
      );
      const link: CpioEntry = { kind: 'symlink', path, target: 'other' };
      expect(() => createRootTree([{ name: 'a', entries: [link] }], [])).toThrow(shell);
    },
  );
});

test('imageFiles() refuses packages without root certificates', () => {
  expect(() => imageFiles([], '1.0.0')).toThrow('no root certificates');
});

describe('imageFiles()', () => {
  const certificate = file('usr/share/ca-certificates/mozilla/a.crt', 'a certificate');
  const files = imageFiles([{ name: 'ca-certificates', entries: [certificate] }], '1.0.0');
  const textOf = (path: string): string => {
    const found = files.find((entry) => entry.path === path);
    return found?.kind === 'file' ? Buffer.from(found.content).toString('latin1') : '';
  };

  test('has no shell script or link as the first program', () => {
    expect(textOf('init')).toMatch(/^\x7fELF/);
    expect(textOf('init')).toContain('/usr/lib/systemd/systemd');
  });

  test('gives the accounts of services the same numbers at each boot', () => {
    expect(textOf('usr/lib/sysusers.d/cluster-image.conf')).toContain('u cluster-etcd-state 801 - ');
  });

  test('confirms an image whose tries are counted, once the agent listens, and restarts otherwise', () => {
    const conditionOf = (unit: string): string | undefined =>
      /^ConditionPathExists=(.+)$/m.exec(textOf(`usr/lib/systemd/system/${unit}`))?.[1];
    const counted = '/sys/firmware/efi/efivars/LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f';
    for (const unit of [
      'boot.mount',
      ...['confirm.path', 'deadline.timer'].map((each) => `cluster-image-${each}`),
    ])
      expect(conditionOf(unit)).toBe(counted);
    expect(textOf('usr/lib/systemd/system/cluster-image-confirm.path')).toContain(
      `PathExists=${AGENT_SOCKET}\n`,
    );
    const wanted = files.filter(({ path }) => path.includes('multi-user.target.wants/cluster-image-'));
    expect(wanted.map(({ path }) => path.slice(path.lastIndexOf('/') + 1))).toEqual([
      'cluster-image-confirm.path',
      'cluster-image-deadline.timer',
    ]);
  });

  test('looks every 15 minutes whether the agent still waits for its cluster share, and restarts if it does not', () => {
    const unit = (name: string): string => textOf(`usr/lib/systemd/system/cluster-image-deadline.${name}`);
    const commands = [...unit('service').matchAll(/^(Exec\w+)=(.+)$/gm)].map(([line]) => line);
    expect(commands).toEqual([
      `ExecCondition=/usr/bin/test ! -e ${AWAITS_SHARE}`,
      'ExecStartPre=/usr/bin/sleep 300',
      'ExecStart=/usr/bin/systemctl reboot',
    ]);
    // An agent that listens meanwhile ends the last minutes too.
    expect(textOf('usr/lib/systemd/system/cluster-image-confirm.service')).toContain(
      'stop cluster-image-confirm.path cluster-image-deadline.timer cluster-image-deadline.service\n',
    );
    expect(unit('timer')).toContain('OnUnitInactiveSec=15min\n');
    expect(textOf('usr/lib/systemd/system/cluster-image-confirm.path')).not.toContain(AWAITS_SHARE);
  });

  test('restarts a machine later than systemd gives up an agent that does not start', () => {
    const minutesOf = (text: string, setting: string): number =>
      Number(new RegExp(`^${setting}=(\\d+)min$`, 'm').exec(text)?.[1]);
    const agent = readFileSync(join(import.meta.dirname, '../../.ci/package/bootstrapper.service'), 'utf8');
    const deadline = textOf('usr/lib/systemd/system/cluster-image-deadline.timer');
    // The agent starts when the network is online, some minutes after the kernel at most.
    expect(minutesOf(deadline, 'OnBootSec')).toBeGreaterThan(minutesOf(agent, 'TimeoutStartSec') + 5);
  });

  test('shuts down when the power button is pressed, and offers no login at a console', () => {
    const masked = files.flatMap((entry) =>
      entry.kind === 'symlink' && entry.target === '/dev/null'
        ? [entry.path.slice(entry.path.lastIndexOf('/') + 1)]
        : [],
    );
    expect(masked).not.toContain('systemd-logind.service');
    expect(masked).toContain('getty.target');
    const settings = textOf('etc/systemd/logind.conf.d/cluster.conf');
    expect(settings).toContain('HandlePowerKey=poweroff\n');
    expect(settings).toContain('NAutoVTs=0\nReserveVT=0\n');
  });

  test('has the file of host names that containers get a copy of', () => {
    expect(textOf('etc/hosts')).toContain('127.0.0.1 localhost');
  });
});

describe('the list of pinned packages', () => {
  const valid = { name: 'libc6', version: '2:1.0-1', sha256: 'a'.repeat(64), sizeBytes: 1 };
  const lock = { suite: 'bookworm', architecture: 'amd64', packages: [valid] };

  test.each([
    { hardware: 'virtual', kernel: /^linux-image-[\d.]+-\d+-cloud-amd64$/ },
    { hardware: 'server', kernel: /^linux-image-[\d.]+-\d+-amd64$/ },
  ] as const)('of this release has one kernel for $hardware machines', ({ hardware, kernel }) => {
    const names = pinnedPackages(hardware).packages.map(({ name }) => name);
    expect(names.filter((name) => name.startsWith('linux-image-'))).toEqual([expect.stringMatching(kernel)]);
    expect(names).toContain('systemd');
  });

  test('has the same release of both kernels', () => {
    const [virtual, server] = (['virtual', 'server'] as const).map((hardware) =>
      pinnedPackages(hardware).packages.find(({ name }) => name.startsWith('linux-image-')),
    );
    expect(virtual?.version).toBe(server?.version);
  });

  test.each([
    ['a package twice', { ...lock, packages: [valid, valid] }],
    ['a short hash', { ...lock, packages: [{ ...valid, sha256: 'aa' }] }],
    ['an option in place of a name', { ...lock, packages: [{ ...valid, name: '-o' }] }],
    ['no package', { ...lock, packages: [] }],
    ['an unknown member', { ...lock, more: true }],
  ])('is refused with %s', (_, value) => {
    expect(() => parsePackageLock(value)).toThrow(expect.objectContaining({ code: 'image-lock' }));
  });
});

describe('predictRegisters()', () => {
  const stub = Buffer.alloc(1024);
  stub.write('MZ');
  stub.writeUInt32LE(0x80, 0x3c);
  stub.write('PE', 0x80);
  stub.writeUInt16LE(0x20b, 0x98);
  const given = {
    loader: stub,
    uki: stub,
    parts: {
      stub,
      kernel: stub,
      initrd: Buffer.from('initrd'),
      commandLine: 'quiet',
      osRelease: 'ID=cluster\n',
    },
    credentials: new Map([['provisioning.cred', Buffer.from('{}')]]),
    partitionTable: Buffer.from('table'),
  };
  const changed = (
    change: Partial<Omit<MeasuredImage, 'parts'>> & { readonly parts?: Partial<typeof given.parts> },
  ): readonly number[] => {
    const before = predictRegisters(given);
    const after = predictRegisters({ ...given, ...change, parts: { ...given.parts, ...change.parts } });
    return [...after].flatMap(([pcr, value]) =>
      Buffer.from(value).equals(before.get(pcr) ?? new Uint8Array()) ? [] : [pcr],
    );
  };

  test('changes exactly the registers that measure the changed part of the image', () => {
    const otherKernel = Buffer.concat([stub, Buffer.alloc(8)]);
    expect(changed({ parts: { commandLine: 'verbose' } })).toEqual([9, 11, 12]);
    expect(changed({ parts: { initrd: Buffer.from('other') } })).toEqual([9, 11]);
    expect(changed({ parts: { kernel: otherKernel } })).toEqual([4, 11]);
    expect(changed({ parts: { osRelease: 'ID=other\n' } })).toEqual([11]);
    expect(changed({ uki: otherKernel })).toEqual([4]);
    expect(changed({ loader: otherKernel })).toEqual([4]);
    expect(changed({ loader: undefined })).toEqual([4, 12]);
    expect(changed({ partitionTable: undefined })).toEqual([5]);
    expect(changed({ partitionTable: Buffer.from('other') })).toEqual([5]);
    expect(changed({ credentials: new Map([['provisioning.cred', Buffer.from('{ }')]]) })).toEqual([9, 12]);
    expect(changed({ credentials: new Map() })).toEqual([9, 12]);
  });

  test('adds PCR 10 with the boot aggregate when all registers of the firmware are known', () => {
    const image = predictRegisters(given);
    const firmware = new Map(FIRMWARE_REGISTERS.map((pcr) => [pcr, Buffer.alloc(32, pcr)]));
    expect([...withFirmware(image, firmware).keys()]).toEqual([...Array(15).keys()]);
    firmware.delete(7);
    expect(withFirmware(image, firmware).has(10)).toBe(false);
  });
});
