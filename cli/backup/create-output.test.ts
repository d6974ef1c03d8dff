import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  parseBackupCertificate,
  readBackupHeader,
  writeBackup,
  type SingleCertificate,
} from '../../internal/backup/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { fingerprintOfKey, nodeIdOf, pubKeyDerOf } from '../../internal/pki/index.ts';
import { readCaller } from '../cluster/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { runBackupCreate } from './create-backup.ts';
import { runBackupShow } from './manage-backups.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

const nodePem = generateEd25519Key();
const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
const NODE = nodeIdOf(spki);
const OPTIONS = { to: '-', recipients: [] };

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

/** A cluster whose control plane streams a backup; `change` alters its bytes. */
async function createCluster(change: (file: Uint8Array) => Uint8Array = (file) => file) {
  let fingerprint = '';
  const sent: Uint8Array[] = [];
  const harness = await createCuratorHarness(
    {
      getClusterInfo: async () => ({
        clusterName: 'prod',
        epoch: 1n,
        directory: [{ nodeId: NODE, name: 'n1', curatorEndpoint: '127.0.0.1:1' }],
      }),
    },
    { listOperators: async () => ({ operators: [{ name: 'owner', role: 'owner', fingerprint }] }) },
    {
      takeBackup: async function* ({ backup }) {
        const { certificate: bytes, workspace } = backup ?? {
          certificate: new Uint8Array(),
          workspace: new Uint8Array(),
        };
        const certificate = parseBackupCertificate(bytes) as SingleCertificate;
        const header = {
          ...{
            clusterId: certificate.clusterId,
            clusterName: 'prod',
            epoch: 1,
            takenMs: certificate.issuedMs,
          },
          ...{ revisions: { state: '7', kubernetes: '9' }, versions: { agent: '1', kubernetes: 'v1.37.2' } },
          ...{ signer: spki.toString('base64'), certificate },
        };
        const parts = [{ name: 'workspace', content: one(workspace) } as const];
        const file = change(new Uint8Array(await buffer(writeBackup(header, parts, nodePem))));
        for (let at = 0; at < file.length; at += 100) {
          sent.push(file.subarray(at, at + 100));
          yield { data: file.subarray(at, at + 100) };
        }
      },
    },
  );
  open.push(harness);
  const { owner } = harness;
  const { keyPem } = await readOwnerKey(owner, layoutOf('/owner'));
  fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
  const { clusterId } = await readCaller(owner);
  return { owner, sent, clusterId };
}

const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'accepted',
    (error: unknown) => findCoded(error)?.code,
  );

describe('cluster backup create --to -', () => {
  test('writes the bytes of the file and nothing else to standard output', async () => {
    const { owner, sent, clusterId } = await createCluster();
    await runBackupCreate(owner, OPTIONS);
    const written = Buffer.concat(owner.host.written ?? []);
    expect(written.equals(Buffer.concat(sent))).toBe(true);
    expect((await readBackupHeader(one(written))).clusterId).toBe(clusterId);
    // No result is written, because it would be appended to the backup on standard output.
    expect(owner.host.records.filter(({ kind }) => kind === 'result')).toEqual([]);
    expect(owner.host.codes).toContain('backup-written');
  });

  test.each([
    {
      name: 'changed',
      change: (file: Uint8Array) => file.with(file.length - 1, (file.at(-1) ?? 0) ^ 1),
      want: 'backup-signature-invalid',
    },
    { name: 'cut', change: (file: Uint8Array) => file.subarray(0, -1), want: 'backup-truncated' },
  ])(
    'fails when the stream was $name, although all received bytes were already written',
    async ({ change, want }) => {
      const { owner } = await createCluster(change);
      expect(await codeOf(runBackupCreate(owner, OPTIONS))).toBe(want);
    },
  );

  test('refuses a terminal before a backup is taken', async () => {
    const { owner, sent } = await createCluster();
    owner.host.written = undefined;
    expect(await codeOf(runBackupCreate(owner, OPTIONS))).toBe('backup-output-unfit');
    expect(sent).toEqual([]);
  });

  test('fails when writing to standard output fails', async () => {
    const { owner } = await createCluster();
    const full = new Error('no space left on device');
    Object.defineProperty(owner.host, 'bytes', { value: () => Promise.reject(full) });
    await expect(runBackupCreate(owner, OPTIONS)).rejects.toThrow('no space left');
  });
});

describe('a backup by an owner without the master secret', () => {
  test('says that the backup contains no workspace: at its creation, in its result, and in backup show', async () => {
    const { owner } = await createCluster();
    await owner.ports.files.remove(layoutOf('/owner').masterSecret);
    const directory = await mkdtemp(join(tmpdir(), 'cluster-create-'));
    open.push({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) });
    const to = join(directory, 'other.backup');
    await runBackupCreate(owner, { to, recipients: [] });
    const text = (): string =>
      owner.host.records.flatMap((each) => (each.kind === 'result' ? [each.text] : [])).at(-1) ?? '';
    expect(owner.host.codes).toContain('backup-without-workspace');
    expect(owner.host.answered).toMatchObject({ hasWorkspace: false });
    expect(text()).toMatch(/^Workspace: +not in the backup/m);
    await runBackupShow(owner, to);
    expect(owner.host.answered).toMatchObject({ hasWorkspace: false });
    expect(text()).toMatch(/^Workspace: +not in the backup/m);
  });

  test('is not said about a backup of the first owner', async () => {
    const { owner } = await createCluster();
    await runBackupCreate(owner, OPTIONS);
    expect(owner.host.codes).not.toContain('backup-without-workspace');
    const said = owner.host.records.find((each) => each.kind === 'say' && each.code === 'backup-written');
    expect(said).toMatchObject({ data: { hasWorkspace: true } });
  });
});
