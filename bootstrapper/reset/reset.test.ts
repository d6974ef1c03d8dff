import { describe, expect, test } from '@jest/globals';
import {
  ed25519PubKeyFrom,
  generateEd25519Key,
  resetStatement,
  voucherStatement,
  type OwnerVoucher,
  signEd25519,
} from '../../internal/crypto/index.ts';
import type { AppendPort, FilePort } from '../../internal/file/index.ts';
import {
  createMemoryLogger,
  FakeCommands,
  FakeUnits,
  FaultyFiles,
  MemoryFiles,
  SimulatedCrash,
  type CommandAnswer,
} from '../../internal/testing/index.ts';
import { runReset, mountsBelow, type ResetOptions } from './run-reset.ts';
import { ResetOrders, type ResetPaths } from './reset-orders.ts';

const never = new AbortController().signal;
const STATE = '/var/lib/cluster';
const paths: ResetPaths = {
  state: STATE,
  resetOrder: `${STATE}/reset/order.json`,
  machineKey: `${STATE}/machine/key.pem`,
  fingerprint: `${STATE}/machine/fingerprint`,
  store: `${STATE}/store`,
};
const options: ResetOptions = {
  paths,
  unitsToStop: ['kubelet.service', 'cluster-etcd.service'],
  runtimeUnit: 'cluster-containerd.service',
  directoriesToRemove: ['/etc/kubernetes', '/var/lib/kubelet'],
  linksToRemove: ['cni0'],
  hasLockRegister: false,
  bootId: 'boot-1',
  signal: never,
};
const SECRETS = [
  `${STATE}/consensus/clients/ca.key`,
  `${STATE}/etcd/data/member/wal`,
  `${STATE}/ca/ca.key`,
  `${STATE}/membership/membership.json`,
  `${STATE}/enrolment/lock.json`,
  `${STATE}/init/events.jsonl`,
  '/etc/kubernetes/pki/ca.key',
  '/var/lib/kubelet/pods/token',
  paths.fingerprint,
  paths.machineKey,
];
const KEPT = [
  `${STATE}/store/blobs/sha256/a`,
  `${STATE}/machine/attestation-key.sealed`,
  '/etc/cluster/provisioning.json',
];

const owner = generateEd25519Key();
const raw = (key: typeof owner): Uint8Array => ed25519PubKeyFrom(key) ?? new Uint8Array();
const orderFor = (nodeId: string, key = owner, clusterId = 'c') => ({
  ownerPubKey: raw(key),
  signature: signEd25519(key, resetStatement({ clusterId, nodeId })),
  vouchers: [] as readonly OwnerVoucher[],
});
/** A voucher by which the first key declares the second key an owner key. */
const voucher = (by: typeof owner, other: typeof owner, clusterId = 'c'): OwnerVoucher => ({
  by: raw(by),
  signature: signEd25519(by, voucherStatement({ clusterId, ownerPubKey: raw(other) })),
});

/** A disk with a fake kernel that reports the mounts on it. */
class MountedFiles extends MemoryFiles {
  mounts = MOUNTS;

  override read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    return path === '/proc/self/mountinfo'
      ? Promise.resolve(Buffer.from(this.mounts))
      : super.read(path, maxBytes);
  }

  unmount(path: string): void {
    const written = path.replaceAll(' ', '\\040');
    this.mounts = this.mounts
      .split('\n')
      .filter((line) => line.split(' ')[4] !== written)
      .join('\n');
  }
}

async function createMachine(answer: CommandAnswer = () => undefined) {
  const files = new MountedFiles();
  for (const path of [...SECRETS, ...KEPT]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, path);
  }
  const units = new FakeUnits();
  for (const unit of [...options.unitsToStop, 'kubepods.slice', options.runtimeUnit]) units.active.add(unit);
  const commands = new FakeCommands((argv, command) => {
    const said = answer(argv, command);
    if (said === undefined && argv[0] === 'umount') files.unmount(argv.at(-1) ?? '');
    return said;
  });
  const { log } = createMemoryLogger();
  const orders = new ResetOrders({ files, paths, ownerKeys: [raw(owner)], nodeId: 'node-1' });
  const there = async (paths: readonly string[]): Promise<readonly string[]> => {
    const stats = await Promise.all(paths.map((path) => files.stat(path)));
    return paths.filter((_, index) => stats[index] !== undefined);
  };
  const carryOut = (over: Partial<ResetOptions> = {}, disk: FilePort & AppendPort = files) =>
    runReset({ files: disk, commands, units, log }, { ...options, ...over });
  return { files, units, commands, orders, there, carryOut };
}

const MOUNTS = [
  '22 1 8:1 / / rw - ext4 /dev/sda1 rw',
  '40 22 0:40 / /var/lib/kubelet/pods/a/volumes/token rw - tmpfs tmpfs rw',
  '41 40 0:41 / /var/lib/kubelet/pods/a/volumes/token/deep\\040one rw - tmpfs tmpfs rw',
  '42 22 0:42 / /var/lib/kubeletes rw - tmpfs tmpfs rw',
  '43 22 0:43 / /var/lib/kubelet/pods/b//deleted rw - tmpfs tmpfs rw',
].join('\n');

describe('a reset request', () => {
  test('is on disk before the response, and ends the agent', async () => {
    const { orders, there } = await createMachine();
    await orders.accept('c', orderFor('node-1'));
    expect(await there([paths.resetOrder])).toEqual([paths.resetOrder]);
    expect(orders.ordered.peek()).toEqual({ set: true, value: true });
    await orders.accept('c', orderFor('node-1')); // repeated, as after a lost response
  });

  const [second, third, otherKey] = [generateEd25519Key(), generateEd25519Key(), generateEd25519Key()];
  test.each([
    {
      name: 'has a voucher of the owner',
      order: { ...orderFor('node-1', second), vouchers: [voucher(owner, second)] },
    },
    {
      name: 'has a chain of two vouchers from the owner',
      order: { ...orderFor('node-1', third), vouchers: [voucher(owner, second), voucher(second, third)] },
    },
    {
      name: 'is the owner key, with a voucher of another key as well',
      order: { ...orderFor('node-1'), vouchers: [voucher(otherKey, owner)] },
    },
  ])(
    'signed with a key that the provisioning does not list is accepted when the key $name',
    async ({ order }) => {
      const { orders } = await createMachine();
      await orders.accept('c', order);
      expect(orders.ordered.peek()).toEqual({ set: true, value: true });
    },
  );

  test.each([
    { name: 'a key that is not the owner’s', order: orderFor('node-1', otherKey) },
    {
      name: 'another key that names the owner’s public key',
      order: { ...orderFor('node-1', otherKey), ownerPubKey: raw(owner) },
    },
    { name: 'the owner, for another machine', order: orderFor('node-2') },
    { name: 'the owner, for another cluster', order: orderFor('node-1', owner, 'd') },
    {
      name: 'a key with a voucher of a key that is not the owner’s',
      order: { ...orderFor('node-1', second), vouchers: [voucher(otherKey, second)] },
    },
    {
      name: 'a key with a voucher of the owner for another cluster',
      order: { ...orderFor('node-1', second), vouchers: [voucher(owner, second, 'd')] },
    },
    {
      name: 'another key with a voucher for a different key',
      order: { ...orderFor('node-1', otherKey), vouchers: [voucher(owner, second)] },
    },
    {
      name: 'a key whose chain of vouchers does not reach the owner',
      order: { ...orderFor('node-1', third), vouchers: [voucher(owner, second), voucher(otherKey, third)] },
    },
    {
      name: 'no key',
      order: { ownerPubKey: new Uint8Array(), signature: new Uint8Array(), vouchers: [] },
    },
  ])('of $name is refused, and nothing is changed', async ({ order }) => {
    const { orders, there, carryOut } = await createMachine();
    await expect(orders.accept('c', order)).rejects.toMatchObject({ code: 'reset-not-authorized' });
    expect(orders.ordered.peek()).toEqual({ set: true, value: false });
    expect(await carryOut()).toBe('none');
    expect(await there(SECRETS)).toEqual(SECRETS);
  });
});

describe('runReset()', () => {
  test('stops everything, unmounts, and deletes all state of this machine', async () => {
    const { orders, units, commands, there, carryOut } = await createMachine();
    await orders.accept('c', orderFor('node-1'));
    expect(await carryOut()).toBe('fresh');
    expect([...units.active]).toEqual([]);
    expect(units.moves.at(-1)).toBe('stop cluster-containerd.service');
    expect(await there([...SECRETS, paths.resetOrder])).toEqual([]);
    expect(await there(KEPT)).toEqual(KEPT);
    expect(commands.runs).toContainEqual(['umount', '--lazy', '/var/lib/kubelet/pods/a/volumes/token']);
    expect(commands.runs.some((argv) => argv.includes('reboot'))).toBe(false);
    expect(await carryOut()).toBe('none');
  });

  test('continues after a crash at any change of the disk', async () => {
    let crashes = 0;
    for (const fault of ['crash-before', 'crash-after'] as const) {
      for (let point = 0; ; point++) {
        const { files, orders, there, carryOut } = await createMachine();
        await orders.accept('c', orderFor('node-1'));
        const disk = new FaultyFiles(files, { point, fault });
        const ended = await carryOut({}, disk).catch((error: unknown) => error);
        if (ended === 'fresh') break;
        expect(ended).toBeInstanceOf(SimulatedCrash);
        crashes++;
        // Until the reset is complete, the next start must still find the request.
        const again = await carryOut();
        if (again === 'none') expect(await there(SECRETS)).toEqual([]);
        expect(await there([...SECRETS, paths.resetOrder])).toEqual([]);
      }
    }
    expect(crashes).toBeGreaterThan(20);
  });

  test('a machine with a lock register is fresh only after a reboot', async () => {
    const { orders, commands, there, carryOut } = await createMachine();
    await orders.accept('c', orderFor('node-1'));
    for (let starts = 0; starts < 2; starts++) {
      expect(await carryOut({ hasLockRegister: true })).toBe('restarting');
      expect(commands.runs.at(-1)).toEqual(['systemctl', 'reboot']);
      expect(await there([paths.resetOrder])).toEqual([paths.resetOrder]);
    }
    expect(await carryOut({ hasLockRegister: true, bootId: 'boot-2' })).toBe('fresh');
    expect(await there([paths.resetOrder, `${paths.resetOrder}.wiped`])).toEqual([]);
  });

  const failing =
    (program: string): CommandAnswer =>
    (argv) =>
      argv.includes(program) ? { exitCode: 1, output: 'busy' } : undefined;

  test('deletes no directory that still contains a mount, and keeps the request', async () => {
    const { orders, there, carryOut } = await createMachine(failing('umount'));
    await orders.accept('c', orderFor('node-1'));
    await expect(carryOut()).rejects.toMatchObject({
      code: 'reset-still-mounted',
      details: { path: '/var/lib/kubelet/pods/a/volumes/token/deep one' },
    });
    expect(await there([paths.resetOrder, ...SECRETS])).toHaveLength(SECRETS.length + 1);
  });

  test('reports a failed reboot, and is complete after the next boot', async () => {
    const { orders, there, carryOut } = await createMachine(failing('reboot'));
    await orders.accept('c', orderFor('node-1'));
    for (let starts = 0; starts < 2; starts++)
      await expect(carryOut({ hasLockRegister: true })).rejects.toMatchObject({
        code: 'reset-not-restarted',
      });
    expect(await there([paths.resetOrder])).toEqual([paths.resetOrder]);
    expect(await carryOut({ hasLockRegister: true, bootId: 'boot-2' })).toBe('fresh');
  });

  test('carries out an order that root wrote on the machine', async () => {
    const { files, there, carryOut } = await createMachine();
    await files.makeDirectory(`${STATE}/reset`);
    await files.writeAtomic(paths.resetOrder, '');
    expect(await carryOut()).toBe('fresh');
    expect(await there([...SECRETS, paths.resetOrder])).toEqual([]);
  });

  test('keeps the order for the next start when a workload does not stop', async () => {
    const { files, orders, there } = await createMachine();
    await orders.accept('c', orderFor('node-1'));
    const units = { stop: () => Promise.reject(new Error('busy')) };
    const ports = { files, commands: new FakeCommands(), units, log: createMemoryLogger().log };
    await expect(runReset(ports, options)).rejects.toThrow('busy');
    expect(await there([paths.resetOrder, ...SECRETS])).toHaveLength(SECRETS.length + 1);
  });
});

test('mountsBelow() lists the deepest mount first, and only mounts in the directories', () => {
  expect(mountsBelow(MOUNTS, ['/var/lib/kubelet'])).toEqual([
    '/var/lib/kubelet/pods/a/volumes/token/deep one',
    '/var/lib/kubelet/pods/a/volumes/token',
  ]);
  expect(mountsBelow('', ['/'])).toEqual([]);
});
