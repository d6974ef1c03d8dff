import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  parseBackupCertificate,
  recoveryKeyOfOwner,
  signBackupCertificate,
  verifyBackupCertificate,
  writeBackup,
  type ScheduleCertificate,
} from '../../../internal/backup/index.ts';
import { generateEd25519Key } from '../../../internal/crypto/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { fingerprintOfKey, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { readCaller } from '../../cluster/index.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import type { RecordingHost } from '../../host/fake-host.ts';
import { layoutOf, readOwnerKey } from '../../workspace/index.ts';
import { runBackupFetch, runClusterBackupList } from './cluster-backups.ts';
import { runScheduleSet, runScheduleShow, runScheduleStop } from './schedule.ts';

const NOW = 1_800_000_000_000;
const DAY_MS = 24 * 3_600_000;
const open: AsyncDisposable[] = [];
const directories: string[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
  for (const each of directories.splice(0)) await rm(each, { recursive: true, force: true });
});

const nodePem = generateEd25519Key();
const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
const NODE = nodeIdOf(spki);
const OPTIONS = { everyMs: 6 * 3_600_000, keep: 7, validMs: 365 * DAY_MS, recipients: [] };

/** The data of the last result of a context. */
function lastOf({ host }: { readonly host: RecordingHost }): unknown {
  const last = host.records.findLast(({ kind }) => kind === 'result');
  return last?.kind === 'result' ? last.data : undefined;
}

/** The text of the last result of a context. */
function textOf({ host }: { readonly host: RecordingHost }): string {
  const last = host.records.findLast(({ kind }) => kind === 'result');
  return last?.kind === 'result' ? last.text : '';
}

/** A cluster with one control plane, which keeps what is stored, and an owner's workstation. */
async function createCluster(role = 'owner') {
  const cluster = {
    certificate: new Uint8Array(),
    workspace: new Uint8Array(),
    file: new Uint8Array(),
    sha256: '',
  };
  const backup = (seq: number, provedMs: bigint, sha256: string) => ({
    ...{ name: `0000000${seq}-20270115T080000000Z.backup`, seq: BigInt(seq), nodeId: NODE, nodeName: 'n1' },
    ...{ takenMs: BigInt(NOW), provedMs, epoch: 1n, sha256, sizeBytes: BigInt(cluster.file.length) },
  });
  let fingerprint = '';
  const harness = await createCuratorHarness(
    {
      getClusterInfo: async () => ({
        clusterName: 'prod',
        epoch: 1n,
        directory: [{ nodeId: NODE, name: 'n1', curatorEndpoint: '127.0.0.1:1' }],
      }),
    },
    {
      listOperators: async () => ({ operators: [{ name: 'owner', role, fingerprint }] }),
      putBackupSchedule: async ({ certificate, workspace }) => {
        Object.assign(cluster, {
          certificate: Uint8Array.from(certificate),
          workspace: Uint8Array.from(workspace),
        });
        return {};
      },
      listBackups: async () => ({
        ...{ certificate: cluster.certificate, scheduledBy: 'operator:owner' },
        copies: [
          { nodeId: NODE, nodeName: 'n1', directory: '/mnt/backups', names: [backup(1, 0n, '').name] },
        ],
        backups: [backup(2, 0n, '1'.repeat(64)), backup(1, BigInt(NOW), cluster.sha256)],
      }),
    },
    {
      fetchBackup: async function* ({ backup: wanted }) {
        expect(wanted?.name).toBe('00000001-20270115T080000000Z.backup');
        yield { data: await Promise.resolve(cluster.file) };
      },
    },
  );
  open.push(harness);
  const { owner } = harness;
  const { keyPem } = await readOwnerKey(owner, layoutOf('/owner'));
  fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
  const { clusterId } = await readCaller(owner);
  return { owner, cluster, keyPem, clusterId };
}

const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'accepted',
    (error: unknown) => findCoded(error)?.code,
  );

describe('cluster backup schedule', () => {
  test('set signs the directory for copies, and refuses a path that is not absolute and plain', async () => {
    const { owner, cluster } = await createCluster();
    for (const copyTo of ['backups', '/', '/mnt/../etc', '/mnt/backups/', '/mnt/a b', '/mnt//b'])
      expect(await codeOf(runScheduleSet(owner, { ...OPTIONS, copyTo }))).toBe('app-usage');
    expect(cluster.certificate).toHaveLength(0);
    await runScheduleSet(owner, { ...OPTIONS, copyTo: '/mnt/backups' });
    expect(parseBackupCertificate(cluster.certificate)).toMatchObject({ copyTo: '/mnt/backups' });
    await runScheduleShow(owner);
    expect(textOf(owner)).toMatch(/^Copied to: +\/mnt\/backups on each of them$/m);
    expect(textOf(owner)).toMatch(/^Copies: +1 of n1$/m);
    await runClusterBackupList(owner, { node: undefined });
    expect(lastOf(owner)).toMatchObject([
      { seq: 2, copied: false },
      { seq: 1, copied: true },
    ]);
  });

  test('backup schedule set signs the period, the control planes, the owner’s recovery key and the sealed workspace', async () => {
    const { owner, cluster, keyPem, clusterId } = await createCluster();
    await runScheduleSet(owner, OPTIONS);
    const signed = parseBackupCertificate(cluster.certificate) as ScheduleCertificate;
    const { pubKey } = await readCaller(owner);
    verifyBackupCertificate(signed, { clusterId, owners: [pubKey] });
    expect(signed).toMatchObject({
      ...{ version: 2, everyMinutes: 360, keep: 7, nodeIds: [NODE], epoch: 1 },
      recipients: [recoveryKeyOfOwner(keyPem).recipient],
      workspaceSha256: createHash('sha256').update(cluster.workspace).digest('hex'),
    });
    expect(signed.endsMs - signed.issuedMs).toBe(365 * DAY_MS);
    // A second one is newer, even within a millisecond.
    await runScheduleSet(owner, OPTIONS);
    expect(parseBackupCertificate(cluster.certificate).issuedMs).toBeGreaterThan(signed.issuedMs);
  });

  test('show says who signed it, and stop ends it', async () => {
    const { owner, cluster } = await createCluster();
    await runScheduleShow(owner);
    expect(lastOf(owner)).toEqual({ schedule: null });
    expect(await codeOf(runScheduleStop(owner))).toBe('backup-no-schedule');
    await runScheduleSet(owner, OPTIONS);
    await runScheduleShow(owner);
    expect(lastOf(owner)).toMatchObject({ schedule: { isVerified: true, missing: [], keep: 7 } });
    await runScheduleStop(owner);
    expect(cluster.certificate).toHaveLength(0);
  });

  test('show does not believe a schedule of somebody else', async () => {
    const { owner, cluster, clusterId } = await createCluster();
    const otherPem = generateEd25519Key();
    const content = {
      ...{ clusterId, epoch: 1, nodeIds: [`node-${'0'.repeat(32)}`], everyMinutes: 1, keep: 1 },
      ...{ recipients: [recoveryKeyOfOwner(otherPem).recipient], issuedMs: NOW, endsMs: NOW + 1 },
    };
    const forged = signBackupCertificate(content, { keyPem: otherPem, vouchers: [] });
    cluster.certificate = new Uint8Array(Buffer.from(JSON.stringify(forged)));
    await runScheduleShow(owner);
    expect(lastOf(owner)).toMatchObject({ schedule: { isVerified: false, missing: ['n1'] } });
  });

  test('set is for owners, and refuses a period below a minute', async () => {
    const { owner } = await createCluster('operator');
    expect(await codeOf(runScheduleSet(owner, OPTIONS))).toBe('backup-not-owner');
    expect(await codeOf(runScheduleSet(owner, { ...OPTIONS, everyMs: 10_000 }))).toBe(
      'backup-schedule-period',
    );
  });
});

describe('backups that control planes keep', () => {
  /** Puts a file into the cluster that a node took on the schedule. */
  async function withFile(change: { readonly sha256?: string } = {}) {
    const created = await createCluster();
    const { cluster, keyPem, clusterId } = created;
    const certificate = signBackupCertificate(
      {
        ...{
          clusterId,
          epoch: 1,
          nodeIds: [NODE],
          everyMinutes: 60,
          keep: 1,
          issuedMs: NOW,
          endsMs: NOW + 1,
        },
        recipients: [recoveryKeyOfOwner(keyPem).recipient],
      },
      { keyPem, vouchers: [] },
    );
    const header = {
      ...{
        clusterId,
        epoch: 1,
        clusterName: 'prod',
        takenMs: NOW,
        revisions: { state: '7', kubernetes: '9' },
      },
      ...{
        versions: { agent: '1.0.0', kubernetes: 'v1.37.2' },
        signer: spki.toString('base64'),
        certificate,
      },
    };
    cluster.file = new Uint8Array(await buffer(writeBackup(header, [], nodePem)));
    cluster.sha256 = change.sha256 ?? createHash('sha256').update(cluster.file).digest('hex');
    const directory = await mkdtemp(join(tmpdir(), 'cluster-fetch-'));
    directories.push(directory);
    return { ...created, to: join(directory, 'fetched') };
  }

  test('are listed with how far they were proved', async () => {
    const { owner } = await createCluster();
    await runClusterBackupList(owner, { node: undefined });
    expect(lastOf(owner)).toMatchObject([
      { seq: 2, node: 'n1', proof: 'TAKEN' },
      { seq: 1, node: 'n1', proof: 'CONTENT-PROVED' },
    ]);
    await runClusterBackupList(owner, { node: 'n2' });
    expect(lastOf(owner)).toEqual([]);
  });

  test('backup fetch downloads and verifies the newest proved backup', async () => {
    const { owner, cluster, to } = await withFile();
    await runBackupFetch(owner, { name: undefined, to });
    expect(Buffer.compare(await readFile(to), cluster.file)).toBe(0);
    expect(lastOf(owner)).toMatchObject({ node: 'n1', proof: 'CONTENT-PROVED', nodeId: NODE });
  });

  test('another file than the recorded one is refused', async () => {
    const { owner, to } = await withFile({ sha256: '2'.repeat(64) });
    expect(await codeOf(runBackupFetch(owner, { name: undefined, to }))).toBe('backup-fetched-differs');
    await expect(readFile(to)).rejects.toThrow('ENOENT');
  });

  test('a changed file is refused', async () => {
    const { owner, cluster, to } = await withFile();
    cluster.file[cluster.file.length - 1] = (cluster.file.at(-1) ?? 0) ^ 1;
    expect(await codeOf(runBackupFetch(owner, { name: undefined, to }))).toBe('backup-signature-invalid');
  });

  test('backup fetch refuses the name of an unknown backup', async () => {
    const { owner, to } = await withFile();
    expect(await codeOf(runBackupFetch(owner, { name: 'x', to }))).toBe('backup-not-kept');
  });
});
