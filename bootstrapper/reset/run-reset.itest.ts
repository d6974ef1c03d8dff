import { mkdir, readdir, realpath, rename, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { DiskFiles } from '../../internal/file/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  FakeCommands,
  FakeUnits,
  opened,
  temporaryDirectory,
} from '../../internal/testing/index.ts';
import { mountsBelow, runReset } from './run-reset.ts';

/** The name under which a killed `writeAtomic()` or `createExclusive()` leaves a file. */
const left = (name: string): string => `.${name}.0123456789ab.tmp`;

/** A real disk with invented mounts. */
class MountedDisk extends DiskFiles {
  mounts: readonly string[] = [];

  override read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    if (path !== '/proc/self/mountinfo') return super.read(path, maxBytes);
    const lines = this.mounts.map((mount) => `50 22 8:17 / ${mount} rw - ext4 /dev/sdb1 rw`);
    return Promise.resolve(Buffer.from(lines.join('\n')));
  }

  /** The kernel refuses to delete a mount point. */
  override async remove(path: string): Promise<void> {
    const lines = await this.read('/proc/self/mountinfo', 65_536);
    if (mountsBelow(Buffer.from(lines ?? '').toString(), [path]).length > 0)
      throw new Error(`EBUSY: ${path}`);
    return super.remove(path);
  }
}

let root: string;
let disk: MountedDisk;
const at = (name: string): string => join(root, name);
beforeEach(async () => {
  root = opened(await temporaryDirectory()).path;
  disk = new MountedDisk();
  await write('state/reset/order.json');
});
afterEach(closeOpened);

async function write(...names: readonly string[]): Promise<void> {
  for (const name of names) {
    await mkdir(dirname(at(name)), { recursive: true });
    await writeFile(at(name), name);
  }
}

/** All files that are left. */
async function files(): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
}

async function reset(...directories: readonly string[]): Promise<string> {
  const real = await Promise.all([at('state'), ...directories.map(at)].map((path) => realpath(path)));
  const commands = new FakeCommands((argv) => {
    const path = argv.at(-1) ?? '';
    if (argv[0] === 'umount') disk.mounts = disk.mounts.filter((mount) => mount !== path);
    return argv[0] === 'realpath' ? real.map((each) => `${each}\n`).join('') : undefined;
  });
  const paths = {
    ...{ state: at('state'), resetOrder: at('state/reset/order.json'), store: at('state/store') },
    ...{ machineKey: at('state/machine/key.pem'), fingerprint: at('state/machine/fingerprint') },
  };
  const options = {
    ...{ paths, unitsToStop: [], runtimeUnit: 'containerd.service', linksToRemove: [], routeProtocol: 109 },
    ...{ directoriesToRemove: directories.map(at), registries: at('certs.d'), hasLockRegister: false },
    ...{ bootId: 'boot-1', signal: new AbortController().signal },
  };
  const ports = { files: disk, commands, units: new FakeUnits(), log: createMemoryLogger().log };
  return runReset(ports, options);
}

test('runReset() deletes the temporary files of killed writers, which may be the machine key', async () => {
  await write(`kubelet/${left('kubeconfig')}`, `state/${left('lock.json')}`);
  await write('state/machine/key.pem', `state/machine/${left('key.pem')}`);
  disk.mounts = [at('kubelet')];
  expect(await reset('kubelet')).toBe('fresh');
  expect(await files()).toEqual([]);
});

test('runReset() empties a disk of its own in the state of the agent, and leaves it mounted', async () => {
  await write('state/etcd/data/wal', 'state/etcd/config', 'state/store/blob', 'state/machine/key.pem');
  disk.mounts = [at('state/etcd/data')];
  expect(await reset()).toBe('fresh');
  expect(await files()).toEqual(['state/store/blob']);
  expect(disk.mounts).toEqual([at('state/etcd/data')]);
});

test('runReset() empties a directory behind a symbolic link, and keeps the link', async () => {
  await write('large/containerd/content/layer', 'large/other');
  await symlink(at('large/containerd'), at('containerd'));
  expect(await reset('containerd')).toBe('fresh');
  expect(await files()).toEqual(['large/other']);
  expect(await disk.stat(at('containerd'))).toMatchObject({ kind: 'symlink' });
});

test('runReset() unmounts a volume first where a parent of the directory is a symbolic link', async () => {
  await write('large/lib/kubelet/pods/a/volume/data');
  await symlink(at('large'), at('var'));
  const volume = at('large/lib/kubelet/pods/a/volume');
  disk.mounts = [volume];
  const remove = disk.remove.bind(disk);
  disk.remove = async (path) => {
    if (disk.mounts.length === 0) await rename(`${volume}/data`, at('volume-data')).catch(() => undefined);
    return remove(path);
  };
  expect(await reset('var/lib/kubelet')).toBe('fresh');
  expect(await files()).toEqual(['volume-data']);
});
