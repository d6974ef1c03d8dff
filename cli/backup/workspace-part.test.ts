import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner, signBackupCertificate, writeBackup } from '../../internal/backup/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { clusterIdFrom, generateWorkspace } from '../cluster/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { layoutOf, readMasterSecret, readOwnerKey } from '../workspace/index.ts';
import { restoreWorkspace, sealWorkspacePart } from './workspace-part.ts';

const NOW = 1_800_000_000_000;
const directories: string[] = [];
afterEach(async () => {
  for (const each of directories.splice(0)) await rm(each, { recursive: true, force: true });
});

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

/** A backup of the workspace in `/owner`. */
async function createBackup(
  change: {
    readonly clusterId?: string;
    readonly signed?: Uint8Array;
    readonly withWorkspace?: boolean;
  } = {},
) {
  const files = new MemoryFiles();
  const owner = contextOf(files, '/owner');
  await generateWorkspace(owner, { name: 'prod' });
  const layout = layoutOf('/owner');
  const { keyPem } = await readOwnerKey(owner, layout);
  const clusterId = change.clusterId ?? clusterIdFrom(await readMasterSecret(owner, layout));
  const recipients = [recoveryKeyOfOwner(keyPem).recipient];
  const workspace = await sealWorkspacePart(owner, recipients);
  const workspaceSha256 = createHash('sha256')
    .update(change.signed ?? workspace)
    .digest('hex');
  const nodePem = generateEd25519Key();
  const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
  const about = { clusterId, epoch: 1, nodeId: nodeIdOf(spki), recipients };
  const header = {
    ...{ clusterId, epoch: 1, clusterName: 'prod', takenMs: NOW, revisions: { state: '7', kubernetes: '9' } },
    ...{ versions: { agent: '1.0.0', kubernetes: 'v1.37.2' }, signer: spki.toString('base64') },
    certificate: signBackupCertificate(
      { ...about, issuedMs: NOW - 1, endsMs: NOW + 1, workspaceSha256 },
      { keyPem, vouchers: [] },
    ),
  };
  const names = ['configuration', 'bundle', 'shared-keys', 'state-etcd', 'kubernetes-etcd', 'facts'] as const;
  const parts = names.map((name) => ({ name, content: one(Buffer.from(name)) }));
  const first =
    change.withWorkspace === false ? [] : [{ name: 'workspace', content: one(workspace) } as const];
  const bytes = await buffer(writeBackup(header, [...first, ...parts], nodePem));
  const directory = await mkdtemp(join(tmpdir(), 'cluster-backup-'));
  directories.push(directory);
  const file = join(directory, 'prod.backup');
  await writeFile(file, bytes);
  return { files, file, bytes };
}

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
