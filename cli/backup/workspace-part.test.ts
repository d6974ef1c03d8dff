import { writeFile } from 'node:fs/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import type { MemoryFiles } from '../../internal/testing/index.ts';
import { generateWorkspace } from '../cluster/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { createBackup, deleteBackups } from './fake-backup.ts';
import { restoreWorkspace } from './workspace-part.ts';

afterEach(deleteBackups);

const text = async (files: MemoryFiles, path: string): Promise<string> =>
  Buffer.from((await files.read(path, 1e6)) ?? '').toString();
const KEYS = { ownerKey: '/owner/owner-key.pem', recoveryKey: undefined };
const OTHER = { name: 'other' };
const NAMES = ['cluster.yaml', 'master-secret.json', 'owner-key.pem'];

describe('restoreWorkspace()', () => {
  test('creates the workspace from the backup and the owner key alone, also after an interruption', async () => {
    const { files, file, bytes } = await createBackup();
    await restoreWorkspace(contextOf(files, '/new'), file, KEYS);
    for (const name of NAMES)
      expect(await text(files, `/new/${name}`)).toBe(await text(files, `/owner/${name}`));
    expect((await files.stat('/new/master-secret.json'))?.mode).toBe(0o600);
    await files.remove('/new/cluster.yaml');
    await restoreWorkspace(contextOf(files, '/new'), file, KEYS);
    expect(await text(files, '/new/cluster.yaml')).toBe(await text(files, '/owner/cluster.yaml'));
    expect(bytes.includes('name: prod')).toBe(false);
  });

  test('changes nothing in a directory with the keys of another cluster', async () => {
    const { files, file } = await createBackup();
    await generateWorkspace(contextOf(files, '/other'), OTHER);
    const before = await Promise.all(NAMES.map((name) => text(files, `/other/${name}`)));
    await expect(restoreWorkspace(contextOf(files, '/other'), file, KEYS)).rejects.toMatchObject({
      code: 'workspace-other-cluster',
    });
    expect(await Promise.all(NAMES.map((name) => text(files, `/other/${name}`)))).toEqual(before);
  });

  test.each([
    {
      name: 'that the owner did not sign',
      change: { signed: Buffer.from('x') },
      want: 'backup-content-invalid',
    },
    { name: 'of another cluster', change: { clusterId: 'f'.repeat(32) }, want: 'backup-content-invalid' },
    { name: 'that is missing', change: { withWorkspace: false }, want: 'backup-no-workspace' },
  ])('writes nothing, and refuses a workspace $name', async ({ change, want }) => {
    const { files, file } = await createBackup(change);
    await expect(restoreWorkspace(contextOf(files, '/new'), file, KEYS)).rejects.toMatchObject({
      code: want,
    });
    expect(await files.list('/new')).toEqual([]);
  });

  test('writes nothing, and refuses a changed file and another owner key', async () => {
    const { files, file, bytes } = await createBackup();
    await generateWorkspace(contextOf(files, '/other'), OTHER);
    const other = { ...KEYS, ownerKey: '/other/owner-key.pem' };
    await expect(restoreWorkspace(contextOf(files, '/new'), file, other)).rejects.toMatchObject({
      code: 'backup-certificate-invalid',
    });
    const middle = bytes.length >> 1;
    bytes[middle] = (bytes[middle] ?? 0) ^ 1;
    await writeFile(file, bytes);
    await expect(restoreWorkspace(contextOf(files, '/new'), file, KEYS)).rejects.toMatchObject({
      code: 'backup-signature-invalid',
    });
    expect(await files.list('/new')).toEqual([]);
  });
});
