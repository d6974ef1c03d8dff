import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import { NodeLock, type LockClaim } from './node-lock.ts';

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'nodelock-'))));
afterEach(() => rm(folder, { recursive: true }));

const createLock = (): NodeLock =>
  new NodeLock({ files: new DiskFiles(), path: join(folder, 'lock.json'), nowMs: () => 7 });
const init: LockClaim = { clusterId: 'a'.repeat(32), by: 'init', id: 'init-1' };
const ticket: LockClaim = { clusterId: 'b'.repeat(32), by: 'join', id: 'ticket-1' };

describe('NodeLock', () => {
  test('acquire() lets exactly one of an init and a ticket win, a hundred times (row 77)', async () => {
    for (let round = 0; round < 100; round++) {
      await rm(join(folder, 'lock.json'), { force: true });
      const claims = round % 2 === 0 ? [init, ticket] : [ticket, init];
      const outcomes = await Promise.allSettled(claims.map((claim) => createLock().acquire(claim)));
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const loser = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
      expect(loser.reason).toMatchObject({ code: 'nodelock-held' });
    }
  });

  test('acquire() finds the same claim won before, also in another life of the agent', async () => {
    const first = await createLock().acquire(init);
    expect(await createLock().acquire(init)).toEqual(first);
    expect(await createLock().read()).toEqual(first);
  });

  test('acquire() tells a second init which cluster the machine belongs to', async () => {
    await createLock().acquire(init);
    const second = createLock().acquire({ ...init, id: 'init-2' });
    await expect(second).rejects.toMatchObject({
      code: 'nodelock-held',
      details: { clusterId: init.clusterId },
    });
  });

  test('read() answers undefined only when there is no lock', async () => {
    expect(await createLock().read()).toBeUndefined();
  });

  const damages = [
    { name: 'an empty file', text: '' },
    { name: 'a cut file', text: '{"version":1,"clus' },
    { name: 'another version', text: JSON.stringify({ version: 2, ...init, lockedAtMs: 1 }) },
    { name: 'no cluster id', text: JSON.stringify({ version: 1, ...init, clusterId: '', lockedAtMs: 1 }) },
    { name: 'null', text: 'null' },
  ];
  test.each(damages)('treats $name as damaged, never as unlocked, and leaves it alone', async ({ text }) => {
    await writeFile(join(folder, 'lock.json'), text);
    await expect(createLock().read()).rejects.toMatchObject({ code: 'nodelock-damaged' });
    await expect(createLock().acquire(init)).rejects.toMatchObject({ code: 'nodelock-damaged' });
    expect(await readFile(join(folder, 'lock.json'), 'utf8')).toBe(text);
  });
});
