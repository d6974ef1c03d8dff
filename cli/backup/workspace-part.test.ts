import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { parseClusterConfig } from '../../internal/config/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { findLocalChart, readChartFiles, writeRestoredChart } from '../charts/index.ts';
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

describe('charts that cluster.yaml names by a path', () => {
  const CHART = { '/Chart.yaml': 'name: app', '/templates/a.yaml': 'kind: ConfigMap' };
  const put = async (files: MemoryFiles, path: string, content: string | Uint8Array): Promise<void> => {
    await files.makeDirectory(dirname(path));
    await files.writeAtomic(path, content);
  };

  test('are in the backup, and the restored workspace finds them, directories and archives', async () => {
    const { files, file } = await createBackup({
      charts: { app: './charts/app', packed: '../other/packed.tgz', again: './charts/app' },
      prepare: async (disk) => {
        for (const [name, text] of Object.entries(CHART)) await put(disk, `/owner/charts/app${name}`, text);
        await put(disk, '/other/packed.tgz', 'archive');
      },
    });
    await files.remove('/other');
    await restoreWorkspace(contextOf(files, '/new'), file, KEYS);
    const app = await findLocalChart(files, '/new', './charts/app');
    expect(app).toMatch(/^\/new\/restored-charts\/[0-9a-f]{16}$/);
    const read = await readChartFiles(files, app);
    expect([...read].map(([name, bytes]) => [name, Buffer.from(bytes).toString()])).toEqual(
      Object.entries(CHART),
    );
    const archive = await findLocalChart(files, '/new', '../other/packed.tgz');
    expect(await text(files, archive)).toBe('archive');
    // A chart of the workstation comes first.
    await put(files, '/new/charts/app/Chart.yaml', 'name: newer');
    expect(await findLocalChart(files, '/new', './charts/app')).toBe('/new/charts/app');
  });

  test('that are missing or too large are named, and the rest is in the backup', async () => {
    const { files, file, host } = await createBackup({
      charts: { gone: './gone', large: './large', app: './charts/app' },
      prepare: async (disk) => {
        await put(disk, '/owner/large/Chart.yaml', randomBytes(400 * 1024));
        await put(disk, '/owner/charts/app/Chart.yaml', 'name: app');
      },
    });
    const warned = host.records.flatMap((each) =>
      each.kind === 'warn' && each.code === 'backup-chart-left-out' ? [each.data] : [],
    );
    expect(warned).toEqual([
      { chart: 'gone', path: './gone' },
      { chart: 'large', path: './large' },
    ]);
    await restoreWorkspace(contextOf(files, '/new'), file, KEYS);
    expect(await files.list('/new/restored-charts')).toHaveLength(1);
  });

  test('do not keep a backup from being taken when cluster.yaml cannot be read', async () => {
    const { files, file, host } = await createBackup({
      configured: parseClusterConfig(
        'version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n',
        'cluster.yaml',
      ),
      prepare: (disk) => disk.writeAtomic('/owner/cluster.yaml', 'name: ['),
    });
    expect(host.codes).toContain('backup-charts-unknown');
    await restoreWorkspace(contextOf(files, '/new'), file, KEYS);
    expect(await text(files, '/new/cluster.yaml')).toBe('name: [');
  });

  test.each(['/../x', '/a/../../x', '/..', 'x', '/a//b', '/./x', '/a\0'])(
    'are refused with the file name %j, which leads elsewhere',
    async (name) => {
      const files = new MemoryFiles();
      const content = new Map([[name, new Uint8Array()]]);
      await expect(writeRestoredChart(files, '/new', { path: './app', content })).rejects.toThrow(
        'file name',
      );
      expect(await files.stat('/new')).toBeUndefined();
    },
  );
});
