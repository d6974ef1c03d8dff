import { describe, expect, test } from '@jest/globals';
import { everyFault, FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import {
  createWorkspace,
  layoutOf,
  lockWorkspace,
  readConfig,
  readMasterSecret,
  readOwnerKey,
  StateFile,
} from './index.ts';
import { plainSecrets } from './fake-passphrases.ts';

const layout = layoutOf('/workspace');
const CONFIG = 'version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n';
const options = { programVersion: '0.1.0' };

async function createDisk(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await prepare(files);
  return files;
}

async function prepare(files: MemoryFiles): Promise<void> {
  await files.makeDirectory('/workspace');
  await asProcess(files, { pid: 7, startTicks: 100, bootId: 'boot-1' });
}

/** Writes the files of /proc for a process that runs now. The process of the previous call no longer exists. */
async function asProcess(
  files: MemoryFiles,
  is: { readonly pid: number; readonly startTicks: number; readonly bootId: string },
  keep = false,
): Promise<void> {
  for (const directory of ['/proc/sys/kernel/random', '/proc/self', `/proc/${is.pid}`, '/etc'])
    await files.makeDirectory(directory);
  if (!keep) await files.remove('/proc/7');
  await files.makeDirectory(`/proc/${is.pid}`);
  const stat = `${is.pid} (a (strange) name) S ${Array(18).fill(0).join(' ')} ${is.startTicks} 0\n`;
  await files.writeAtomic('/proc/self/stat', stat);
  await files.writeAtomic(`/proc/${is.pid}/stat`, stat);
  await files.writeAtomic('/proc/sys/kernel/random/boot_id', `${is.bootId}\n`);
  await files.writeAtomic('/etc/machine-id', 'machine-1\n');
}

const create = async (files: FilePort) =>
  createWorkspace(plainSecrets(files), layout, {
    configText: CONFIG,
    state: await StateFile.read(files, layout, options),
  });

const lock = (files: FilePort, clock = new FakeClock()) =>
  lockWorkspace(layout, { files, clock, command: 'cluster init', user: 'me' });

const init = {
  id: '6b0f3f5e-7d0c-4b0a-9d0e-1f2a3b4c5d6e',
  endpoint: '192.0.2.1:9000',
  fingerprint: 'sha256:00',
  requestHash: '00',
  startedMs: 1,
  stage: 'requested' as const,
};

describe('createWorkspace()', () => {
  test('creates keys that only their owner can read, and never overwrites them', async () => {
    const files = await createDisk();
    const first = await create(files);
    expect(first.created).toEqual([layout.ownerKey, layout.masterSecret, layout.config]);
    for (const path of [layout.ownerKey, layout.masterSecret])
      expect((await files.stat(path))?.mode).toBe(0o600);
    const second = await create(files);
    expect(second).toMatchObject({ created: [], ownerKey: { pubKeyBase64: first.ownerKey.pubKeyBase64 } });
    expect(await readConfig(files, layout)).toMatchObject({ name: 'prod' });
  });

  test('completes the workspace after a crash at any write, and after a full disk', async () => {
    const names: string[] = [];
    for await (const { disk, name } of everyFault({
      faults: ['crash-before', 'crash-after', 'no-space'],
      prepare,
      run: create,
    })) {
      await create(disk);
      await readOwnerKey(plainSecrets(disk), layout);
      await readMasterSecret(plainSecrets(disk), layout);
      expect({ name, config: await readConfig(disk, layout) }).toMatchObject({
        name,
        config: { name: 'prod' },
      });
      names.push(name);
    }
    expect(names).toHaveLength(12);
  });

  test('refuses to replace a missing key of an existing cluster', async () => {
    const files = await createDisk();
    await create(files);
    await (await StateFile.read(files, layout, options)).update((state) => ({ ...state, init }));
    await files.remove(layout.masterSecret);
    await expect(create(files)).rejects.toMatchObject({ code: 'workspace-key-lost' });
    expect(await files.stat(layout.masterSecret)).toBeUndefined();
  });
});

describe('readOwnerKey() and readMasterSecret()', () => {
  const cases = [
    {
      name: 'a master secret of another length',
      path: layout.masterSecret,
      text: '{"version":1,"key":"AAAA","salt":"AAAA"}',
      want: 'workspace-key-invalid',
    },
    {
      name: 'a master secret that is not JSON',
      path: layout.masterSecret,
      text: 'secret words',
      want: 'workspace-key-invalid',
    },
    {
      name: 'an owner key that is not a key',
      path: layout.ownerKey,
      text: 'nonsense',
      want: 'workspace-key-invalid',
    },
  ];
  test.each(cases)('refuses $name without printing it', async ({ path, text, want }) => {
    const files = await createDisk();
    await create(files);
    await files.writeAtomic(path, text);
    const read =
      path === layout.ownerKey
        ? readOwnerKey(plainSecrets(files), layout)
        : readMasterSecret(plainSecrets(files), layout);
    await expect(read).rejects.toMatchObject({ code: want, message: expect.not.stringContaining(text) });
  });

  test('refuses a secret that other users can read', async () => {
    const files = await createDisk();
    await create(files);
    const bytes = (await files.read(layout.ownerKey, 1e4)) ?? new Uint8Array();
    await files.writeAtomic(layout.ownerKey, bytes, { mode: 0o644 });
    await expect(readOwnerKey(plainSecrets(files), layout)).rejects.toMatchObject({
      code: 'workspace-key-mode',
    });
  });

  test('reports the path of a missing file', async () => {
    await expect(readOwnerKey(plainSecrets(await createDisk()), layout)).rejects.toMatchObject({
      code: 'workspace-missing',
    });
  });
});

describe('StateFile', () => {
  test('reads back what was written, and only its owner can read it', async () => {
    const files = await createDisk();
    const state = await StateFile.read(files, layout, options);
    await state.update((value) => ({ ...value, init }));
    expect((await StateFile.read(files, layout, options)).value).toEqual({
      version: 1,
      writtenBy: '0.1.0',
      init,
      charts: {},
    });
    expect((await files.stat(layout.state))?.mode).toBe(0o600);
  });

  test('keeps the old value when the write fails', async () => {
    for await (const { error, disk } of everyFault({
      faults: ['no-space'],
      prepare,
      run: async (files) => {
        const state = await StateFile.read(files, layout, options);
        await expect(state.update((value) => ({ ...value, init }))).rejects.toMatchObject({
          code: 'file-no-space',
        });
        expect(state.value.init).toBeUndefined();
      },
    })) {
      expect(error).toBeUndefined();
      expect(await disk.stat(layout.state)).toBeUndefined();
    }
  });

  const refusals = [
    {
      name: 'a newer format, with an error that shows the version that wrote it',
      text: '{"version":2,"writtenBy":"9.9.9","future":1}',
      want: { code: 'workspace-newer', message: expect.stringContaining('9.9.9') },
    },
    { name: 'a truncated file', text: '{"version":1,', want: { code: 'workspace-state-invalid' } },
    {
      name: 'an unknown key',
      text: '{"version":1,"writtenBy":"0.1.0","charts":{},"x":1}',
      want: { code: 'workspace-state-invalid' },
    },
    {
      name: 'a stage that does not exist',
      text: JSON.stringify({ version: 1, writtenBy: '0.1.0', init: { ...init, stage: 'done' } }),
      want: { code: 'workspace-state-invalid' },
    },
    { name: 'a list', text: '[]', want: { code: 'workspace-state-invalid' } },
  ];
  test.each(refusals)('refuses $name', async ({ text, want }) => {
    const files = await createDisk();
    await files.writeAtomic(layout.state, text);
    await expect(StateFile.read(files, layout, options)).rejects.toMatchObject(want);
  });
});

describe('lockWorkspace()', () => {
  test('admits one holder, reports it and its start time to others, and can be released', async () => {
    const files = await createDisk();
    const clock = new FakeClock();
    const held = await lock(files, clock);
    await clock.advance(4 * 60_000);
    await expect(lock(files, clock)).rejects.toMatchObject({
      code: 'workspace-locked',
      exit: 'locked',
      message: expect.stringMatching(/`cluster init` \(me, process 7\) holds \/workspace\/\.lock for 4m/),
      details: { pid: 7, command: 'cluster init' },
    });
    await held[Symbol.asyncDispose]();
    await (await lock(files))[Symbol.asyncDispose]();
    expect(await files.list('/workspace')).toEqual([]);
  });

  const dead = [
    { name: 'a process that ended', next: { pid: 8, startTicks: 200, bootId: 'boot-1' } },
    {
      name: 'an ended process whose number was reused',
      next: { pid: 7, startTicks: 200, bootId: 'boot-1' },
    },
    {
      name: 'a process of an earlier boot with the same number and start time',
      next: { pid: 7, startTicks: 100, bootId: 'boot-2' },
    },
  ];
  test.each(dead)(
    'takes over the lock of $name, even if the lock has a time in the future',
    async ({ next }) => {
      const files = await createDisk();
      await lock(files, new FakeClock(Date.UTC(2099, 0, 1)));
      await asProcess(files, next);
      const clock = new FakeClock(Date.UTC(2026, 0, 1));
      await expect(lock(files, clock)).resolves.toBeDefined();
    },
  );

  test('does not take over the lock of a running process when the clock jumps a year', async () => {
    const files = await createDisk();
    await lock(files, new FakeClock(Date.UTC(2026, 0, 1)));
    await asProcess(files, { pid: 8, startTicks: 200, bootId: 'boot-1' }, true);
    await expect(lock(files, new FakeClock(Date.UTC(2027, 0, 1)))).rejects.toMatchObject({
      code: 'workspace-locked',
    });
    await expect(lock(files, new FakeClock(Date.UTC(2025, 0, 1)))).rejects.toMatchObject({
      message: expect.stringContaining('in the future'),
    });
  });

  test('does not take over the lock of another machine, or an unreadable one', async () => {
    const files = await createDisk();
    await lock(files);
    await files.writeAtomic('/etc/machine-id', 'machine-2\n');
    await expect(lock(files)).rejects.toMatchObject({ code: 'workspace-locked' });
    await files.writeAtomic(`${layout.lock}/holder.json`, 'nonsense');
    await expect(lock(files)).rejects.toMatchObject({
      code: 'workspace-locked',
      message: expect.stringContaining('held by an unknown process'),
    });
    await files.remove(layout.lock);
    await files.writeAtomic(layout.lock, 'a file');
    await expect(lock(files)).rejects.toMatchObject({
      code: 'workspace-locked',
      message: expect.stringContaining('held by an unknown process'),
    });
  });

  test('admits exactly one of many processes after the holder crashed', async () => {
    for (let round = 0; round < 50; round++) {
      const files = await createDisk();
      await lock(files);
      await asProcess(files, { pid: 8, startTicks: 200 + round, bootId: 'boot-1' });
      const results = await Promise.allSettled([lock(files), lock(files), lock(files)]);
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    }
  });

  test('can be acquired after a crash at any write of the lock', async () => {
    for await (const { disk } of everyFault({
      faults: ['crash-before', 'crash-after'],
      prepare,
      run: async (files) => (await lock(files))[Symbol.asyncDispose](),
    })) {
      await asProcess(disk, { pid: 9, startTicks: 300, bootId: 'boot-1' });
      await (await lock(disk))[Symbol.asyncDispose]();
      expect(await disk.list('/workspace')).toEqual([]);
    }
  });
});
