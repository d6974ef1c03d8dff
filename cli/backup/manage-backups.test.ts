import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner, signBackupCertificate, writeBackup } from '../../internal/backup/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { readCaller, saveKnownCurators } from '../cluster/index.ts';
import { plainSecrets } from '../workspace/fake-passphrases.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { runBackupDelete, runBackupInto, runBackupList, runBackupVerify } from './index.ts';
import { saveProof } from './proof-file.ts';

const NOW = 1_800_000_000_000;
const DELETE = { yes: true, dryRun: false } as const;
const PARTS = ['configuration', 'bundle', 'shared-keys', 'state-etcd', 'kubernetes-etcd', 'facts'] as const;
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

/**
 * A workspace in memory and a directory for backups. Each file of the directory is on the real disk and also in memory.
 */
async function createWorkspace() {
  const harness = await createCuratorHarness({}, {});
  open.push(harness);
  const directory = await mkdtemp(join(tmpdir(), 'cluster-backups-'));
  open.push({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) });
  await harness.files.makeDirectory(directory);
  const { keyPem } = await readOwnerKey(plainSecrets(harness.files), layoutOf('/owner'));
  const put = async (
    name: string,
    by = keyPem,
    clusterId = harness.clusterId,
    { takenMs = NOW, revision = 7 } = {},
  ): Promise<string> => {
    const nodePem = generateEd25519Key();
    const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
    const recipients = [recoveryKeyOfOwner(keyPem).recipient];
    const about = { clusterId, epoch: 1 };
    const header = {
      ...{ ...about, clusterName: 'prod', takenMs },
      revisions: { state: String(revision), kubernetes: '9' },
      ...{ versions: { agent: '1.0.0', kubernetes: 'v1.37.2' }, signer: spki.toString('base64') },
      certificate: signBackupCertificate(
        { ...about, nodeId: nodeIdOf(spki), recipients, issuedMs: takenMs - 1000, endsMs: takenMs + 1000 },
        { keyPem: by, vouchers: [] },
      ),
    };
    const parts = PARTS.map((part) => ({ name: part, content: contentOf(part) }));
    const bytes = await buffer(writeBackup(header, parts, nodePem));
    const path = join(directory, name);
    await writeFile(path, bytes);
    await harness.files.writeAtomic(path, bytes);
    return path;
  };
  return { context: contextOf(harness.files, '/owner'), files: harness.files, directory, put };
}

async function* contentOf(text: string): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield Buffer.from(text);
}

describe('backups in a directory', () => {
  test('lists as good only the backups of this cluster that its owner certified', async () => {
    const { context, directory, put } = await createWorkspace();
    await put('own.backup');
    await put('forged.backup', generateEd25519Key());
    await put('other.backup', undefined, 'f'.repeat(32));
    await runBackupList(context, directory);
    const { backups } = context.host.answered as {
      readonly backups: readonly { readonly file: string; readonly status: string }[];
    };
    expect(Object.fromEntries(backups.map(({ file, status }) => [file, status]))).toEqual({
      'own.backup': 'good',
      'forged.backup': 'owner-unknown',
      'other.backup': 'owner-unknown',
    });
  });

  test('lists the newest backup first although a clock was set back,', async () => {
    const { context, directory, put } = await createWorkspace();
    await put('b-older.backup', undefined, undefined, { revision: 7 });
    await put('a-newer.backup', undefined, undefined, { revision: 8, takenMs: NOW - 5000 });
    await put('c-newest.backup', undefined, undefined, { revision: 9, takenMs: NOW - 1000 });
    await runBackupList(context, directory);
    const { backups } = context.host.answered as { readonly backups: readonly { readonly file: string }[] };
    expect(backups.map(({ file }) => file)).toEqual(['c-newest.backup', 'a-newer.backup', 'b-older.backup']);
  });

  test('a backup from an earlier epoch is not good, but is not deleted if it is the last backup', async () => {
    const { context, directory, put, files } = await createWorkspace();
    const own = await put('own.backup');
    await saveKnownCurators(files, '/owner/curators.json', { epoch: 2n, directory: [] });
    await runBackupList(context, directory);
    expect(context.host.answered).toMatchObject({
      backups: [{ file: 'own.backup', status: 'backup-epoch-old' }],
    });
    await expect(runBackupDelete(context, own, DELETE)).rejects.toMatchObject({
      code: 'backup-last-good',
    });
    const options = { recoveryKey: undefined, workDir: undefined };
    await expect(runBackupVerify(context, own, options)).rejects.toMatchObject({ code: 'backup-epoch-old' });
  });

  test('a backup that an owner has proved is listed as proved until the file or the proof changes', async () => {
    const { context, directory, put, files } = await createWorkspace();
    const own = await put('own.backup');
    const proofs = async (): Promise<unknown> => {
      const now = contextOf(files, '/owner');
      await runBackupList(now, directory);
      const { backups } = now.host.answered as { readonly backups: readonly { readonly proof: string }[] };
      return backups.map(({ proof }) => proof);
    };
    expect(await proofs()).toEqual(['TAKEN']);
    const { keyPem } = await readOwnerKey(plainSecrets(files), layoutOf('/owner'));
    const sha256 = createHash('sha256')
      .update(await readFile(own))
      .digest('hex');
    const proved = { clusterId: (await readCaller(context)).clusterId, sha256, provedMs: NOW };
    await saveProof(files, own, { ...proved, keyPem });
    expect(await proofs()).toEqual(['FILE-PROVED']);
    await saveProof(files, own, { ...proved, keyPem: generateEd25519Key() });
    expect(await proofs()).toEqual(['TAKEN']);
    await saveProof(files, own, { ...proved, sha256: 'f'.repeat(64), keyPem });
    expect(await proofs()).toEqual(['TAKEN']);
  });

  test('deletes the proof together with its backup', async () => {
    const { context, put, files, directory } = await createWorkspace();
    const [first] = [await put('first.backup'), await put('second.backup')];
    await files.writeAtomic(`${first}.proof`, '{}');
    await runBackupDelete(context, first ?? '', DELETE);
    expect(await files.list(directory)).toEqual(['second.backup']);
  });

  test('reports a missing directory before it takes a backup', async () => {
    const { context } = await createWorkspace();
    const options = {
      directory: '/away',
      keep: 1,
      prove: true,
      workDir: undefined,
      recipients: [],
    };
    await expect(runBackupInto(context, options)).rejects.toMatchObject({ code: 'backup-not-found' });
  });

  test('lists no backup as good without a workspace', async () => {
    const { files, directory, put } = await createWorkspace();
    await put('own.backup');
    const elsewhere = contextOf(files, '/nowhere');
    await runBackupList(elsewhere, directory);
    expect(elsewhere.host.answered).toMatchObject({ backups: [{ status: 'owner-unknown' }] });
  });

  test('keeps the last good backup although a forged backup lies beside it', async () => {
    const { context, put, files } = await createWorkspace();
    const own = await put('own.backup');
    const forged = await put('forged.backup', generateEd25519Key());
    await expect(runBackupDelete(context, own, DELETE)).rejects.toMatchObject({
      code: 'backup-last-good',
    });
    await runBackupDelete(context, forged, DELETE);
    expect(await files.stat(forged)).toBeUndefined();
  });

  test('delete --dry-run names the file and deletes nothing', async () => {
    const { context, put, files } = await createWorkspace();
    const [first = ''] = [await put('first.backup'), await put('second.backup')];
    await runBackupDelete(context, first, { yes: false, dryRun: true });
    expect(context.host.answered).toEqual({ file: first, dryRun: true, losses: [`backup ${first}`] });
    expect(await files.stat(first)).toBeDefined();
  });

  test('deletes a good backup if the directory has another good one of the cluster', async () => {
    const { context, put, files } = await createWorkspace();
    const [first] = [await put('first.backup'), await put('second.backup')];
    await runBackupDelete(context, first ?? '', DELETE);
    expect(await files.stat(first ?? '')).toBeUndefined();
  });
});
