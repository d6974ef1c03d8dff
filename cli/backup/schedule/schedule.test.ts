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
import { CodedError, defineErrors, findCoded, retryable } from '../../../internal/errors/index.ts';
import { fingerprintOfKey, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { readCaller } from '../../cluster/index.ts';
import { createKubernetes } from '../../cluster/curator/fake-kubernetes.ts';
import {
  FAKE_ACCESS,
  FAKE_BUCKET,
  FakeObjectStore,
} from '../../../internal/objectstore/fake-object-store.ts';
import { runStoreFetch, runStoreList } from '../store/store-backups.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import type { CommandContext } from '../../app/command.ts';
import { RecordingHost } from '../../host/fake-host.ts';
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
const AGREED = { dryRun: false, yes: true };
const OPTIONS = {
  everyMs: 6 * 3_600_000,
  keep: 7,
  validMs: 365 * DAY_MS,
  recipients: [],
  dryRun: false,
  yes: false,
};

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

/** What a curator answers for a node that is down. */
const AWAY = defineErrors({ 'streams-node-away': retryable.peer.unreachable('-', '-') });

/** A cluster with one control plane, which keeps the schedule that it receives, and an owner's workstation. */
async function createCluster(role = 'owner') {
  const cluster = {
    certificate: new Uint8Array(),
    workspace: new Uint8Array(),
    file: new Uint8Array(),
    sha256: '',
    /** Backups whose control plane does not respond, newer than the one that can be fetched. */
    away: [] as readonly number[],
    /** The schedule is not stored: the command was interrupted before. */
    interrupts: false,
  };
  const backup = (seq: number, provedMs: bigint, sha256: string) => ({
    ...{ name: `0000000${seq}-20270115T080000000Z.backup`, seq: BigInt(seq), nodeId: NODE, nodeName: 'n1' },
    ...{ takenMs: BigInt(NOW), provedMs, epoch: 1n, sha256, sizeBytes: BigInt(cluster.file.length) },
    ...(provedMs === 0n ? {} : { proofPlace: 'clear', proofBytes: 4096n }),
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
        if (cluster.interrupts) throw new Error('interrupted');
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
        backups: [
          ...cluster.away.map((seq) => backup(seq, BigInt(NOW), '3'.repeat(64))),
          backup(2, 0n, '1'.repeat(64)),
          backup(1, BigInt(NOW), cluster.sha256),
        ],
      }),
    },
    {
      fetchBackup: async function* ({ backup: wanted }) {
        if (cluster.away.some((seq) => wanted?.name.startsWith(`0000000${seq}-`) === true))
          throw new CodedError(AWAY, 'streams-node-away', 'fetching a backup');
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
  test('set signs the directory for copies, and refuses relative paths and paths that are not in plain form', async () => {
    const { owner, cluster } = await createCluster();
    for (const copyTo of ['backups', '/', '/mnt/../etc', '/mnt/backups/', '/mnt/a b', '/mnt//b'])
      expect(await codeOf(runScheduleSet(owner, { ...OPTIONS, copyTo }))).toBe('app-usage');
    expect(cluster.certificate).toHaveLength(0);
    await runScheduleSet(owner, { ...OPTIONS, copyTo: '/mnt/backups' });
    expect(parseBackupCertificate(cluster.certificate)).toMatchObject({ copyTo: '/mnt/backups' });
    await runScheduleShow(owner);
    expect(textOf(owner)).toMatch(/^Copied to: +\/mnt\/backups by each of them$/m);
    expect(textOf(owner)).toMatch(/^Copies: +1 \(made by n1\)$/m);
    expect(textOf(owner)).toMatch(
      /^Sign again: cluster backup schedule set --every 6h --keep 7 --valid 365d --copy-to \/mnt\/backups$/m,
    );
    await runClusterBackupList(owner, { node: undefined });
    expect(lastOf(owner)).toMatchObject({
      backups: [
        { seq: 2, copied: false },
        { seq: 1, copied: true },
      ],
    });
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
    // A second schedule is newer, even if it is signed within the same millisecond.
    await runScheduleSet(owner, OPTIONS);
    expect(parseBackupCertificate(cluster.certificate).issuedMs).toBeGreaterThan(signed.issuedMs);
  });

  test('show names the owner who signed the schedule, and stop ends the schedule', async () => {
    const { owner, cluster } = await createCluster();
    await runScheduleShow(owner);
    expect(lastOf(owner)).toEqual({ schedule: null });
    await runScheduleSet(owner, OPTIONS);
    await runScheduleShow(owner);
    expect(lastOf(owner)).toMatchObject({ schedule: { isVerified: true, missing: [], keep: 7 } });
    await runScheduleStop(owner, AGREED);
    expect(cluster.certificate).toHaveLength(0);
  });

  test('stop can be repeated: without a schedule, there is nothing to stop', async () => {
    const { owner } = await createCluster();
    for (const flags of [AGREED, { dryRun: true, yes: false }]) {
      await runScheduleStop(owner, flags);
      expect(lastOf(owner)).toMatchObject({ schedule: null });
      expect(textOf(owner)).toContain('nothing to stop');
    }
  });

  test('stop needs a confirmation, and shows with --dry-run what ends', async () => {
    const { owner, cluster } = await createCluster();
    await runScheduleSet(owner, OPTIONS);
    await runScheduleStop(owner, { dryRun: true, yes: false });
    expect(lastOf(owner)).toMatchObject({ dryRun: true, losses: [expect.stringMatching(/by themselves/)] });
    expect(await codeOf(runScheduleStop(owner, { dryRun: false, yes: false }))).toBe('loss-not-confirmed');
    expect(cluster.certificate.length).toBeGreaterThan(0);
  });

  test('set asks before a schedule drops something of the earlier one, and shows it with --dry-run', async () => {
    const { owner, cluster } = await createCluster();
    await runScheduleSet(owner, { ...OPTIONS, copyTo: '/mnt/backups' });
    const before = cluster.certificate;
    const less = { ...OPTIONS, keep: 1 };
    await runScheduleSet(owner, { ...less, dryRun: true, yes: true });
    const losses = [
      expect.stringMatching(/^7 proved backups/),
      expect.stringMatching(/^new copies in \/mnt/),
    ];
    expect(lastOf(owner)).toMatchObject({ dryRun: true, keep: 1, losses });
    expect(textOf(owner)).toMatch(/Nothing was changed\.\n[^]*Consequences:\n {2}- 7 proved backups/);
    expect(await codeOf(runScheduleSet(owner, less))).toBe('loss-not-confirmed');
    const at = (answer: boolean) => ({ ...owner, host: new RecordingHost({ answer: () => answer }) });
    expect(await codeOf(runScheduleSet(at(false), less))).toBe('loss-declined');
    expect(cluster.certificate).toBe(before);
    await runScheduleSet(at(true), less);
    expect(parseBackupCertificate(cluster.certificate)).toMatchObject({ keep: 1 });
    await runScheduleSet(owner, { ...OPTIONS, copyTo: '/mnt/backups' });
    await runScheduleSet(owner, { ...less, yes: true });
    expect(parseBackupCertificate(cluster.certificate)).not.toHaveProperty('copyTo');
  });

  test('set asks nothing if the schedule drops nothing: first, repeated, and with more', async () => {
    const { owner, cluster } = await createCluster();
    const written = owner.ports.files.list('/owner');
    await runScheduleSet(owner, { ...OPTIONS, dryRun: true });
    expect(lastOf(owner)).toMatchObject({ dryRun: true, losses: [] });
    expect(textOf(owner)).not.toContain('Consequences');
    expect([cluster.certificate.length, await owner.ports.files.list('/owner')]).toEqual([0, await written]);
    for (const keep of [7, 7, 8]) await runScheduleSet(owner, { ...OPTIONS, keep });
    expect(parseBackupCertificate(cluster.certificate)).toMatchObject({ keep: 8 });
    expect(owner.host.records.map(({ kind }) => kind)).toEqual(Array(4).fill('result'));
  });

  test('show marks a schedule that no owner has signed as not verified', async () => {
    const { owner, cluster, clusterId } = await createCluster();
    const otherPem = generateEd25519Key();
    const content = {
      ...{ clusterId, epoch: 1, nodeIds: [`node-${'0'.repeat(32)}`], everyMinutes: 1, keep: 1 },
      ...{ recipients: [recoveryKeyOfOwner(otherPem).recipient], issuedMs: NOW, endsMs: NOW + 1 },
    };
    const forged = signBackupCertificate(content, { keyPem: otherPem, vouchers: [] });
    cluster.certificate = new Uint8Array(Buffer.from(JSON.stringify(forged)));
    await runScheduleShow(owner);
    expect(lastOf(owner)).toMatchObject({ schedule: { isVerified: false, missing: ['n1'], again: null } });
    expect(textOf(owner)).not.toContain('cluster backup schedule set');
  });

  test('set refuses a caller who is not an owner, and a period below a minute', async () => {
    const { owner } = await createCluster('operator');
    expect(await codeOf(runScheduleSet(owner, OPTIONS))).toBe('backup-not-owner');
    expect(await codeOf(runScheduleSet(owner, { ...OPTIONS, everyMs: 10_000 }))).toBe(
      'backup-schedule-period',
    );
  });
});

describe('an S3-compatible store', () => {
  const SECRET = '/api/v1/namespaces/kube-system/secrets/cluster-backup-store';
  const FLAGS = { s3Endpoint: 'https://s3.example.org:9000' };
  const TARGET = { ...OPTIONS, copyTo: 's3://backups/blue', store: FLAGS };
  const layout = layoutOf('/owner');
  const fileOf = (secret: string) => `[default]\naws_access_key_id = AK\naws_secret_access_key = ${secret}\n`;

  /** A cluster whose Kubernetes records what is written, and a workspace with an access key. */
  async function createWithKubernetes() {
    const created = await createCluster();
    const { files } = created.owner.ports;
    const written: { readonly method: string; readonly url: string; readonly body: unknown }[] = [];
    const answer = (request: (typeof written)[number]) => {
      if (request.method !== 'GET') written.push(request);
      return request.method === 'GET' ? undefined : {};
    };
    const node = { metadata: { annotations: {} }, spec: {} };
    const at = { address: '127.0.0.1', port: 0, answer };
    open.push(await createKubernetes(files, layout.kubeconfig, node, at));
    await files.writeAtomic(layout.backupCredentials, fileOf('hunter2'), { mode: 0o600 });
    return { ...created, files, written };
  }

  test('set signs the target of the copies but not its access key, which is stored in a Secret', async () => {
    const { owner, cluster, files, written } = await createWithKubernetes();
    const ca = '-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n';
    await files.writeAtomic('/ca.pem', ca);
    await runScheduleSet(owner, { ...TARGET, store: { ...FLAGS, s3Region: 'eu-1', s3Ca: '/ca.pem' } });
    const copyToStore = { endpoint: FLAGS.s3Endpoint, region: 'eu-1', bucket: 'backups', prefix: 'blue', ca };
    expect(parseBackupCertificate(cluster.certificate)).toMatchObject({ copyToStore });
    expect(Buffer.from(cluster.certificate).toString()).not.toContain('hunter2');
    expect(written).toEqual([
      {
        ...{ method: 'PATCH', url: `${SECRET}?fieldManager=cluster&force=true` },
        body: expect.objectContaining({
          data: { credentials: Buffer.from(fileOf('hunter2')).toString('base64') },
        }),
      },
    ]);
    expect(JSON.stringify(owner.host.records)).not.toContain('hunter2');
    await runScheduleShow(owner);
    expect(textOf(owner)).toMatch(
      /^Copied to: +https:\/\/s3\.example\.org:9000\/backups\/blue by each of them$/m,
    );
    expect(lastOf(owner)).toMatchObject({
      schedule: {
        again:
          'cluster backup schedule set --every 6h --keep 7 --valid 365d --copy-to s3://backups/blue --s3-endpoint https://s3.example.org:9000 --s3-region eu-1 --s3-ca FILE',
      },
    });
  });

  test('the Secret is deleted with the last schedule that needs it', async () => {
    const { owner, written } = await createWithKubernetes();
    const deletes = () => written.filter(({ method, url }) => method === 'DELETE' && url === SECRET).length;
    await runScheduleSet(owner, TARGET);
    await runScheduleSet(owner, { ...OPTIONS, yes: true });
    expect(deletes()).toBe(1);
    await runScheduleStop(owner, AGREED);
    expect(deletes()).toBe(1);
    await runScheduleSet(owner, TARGET);
    await runScheduleStop(owner, AGREED);
    expect(deletes()).toBe(2);
  });

  test.each([
    { name: 'stop', run: (owner: CommandContext) => runScheduleStop(owner, AGREED) },
    { name: 'set', run: (owner: CommandContext) => runScheduleSet(owner, { ...OPTIONS, yes: true }) },
  ])(
    '$name deletes the Secret also if it is interrupted before the schedule has changed, and run again',
    async ({ run }) => {
      const { owner, cluster, written } = await createWithKubernetes();
      const deletes = () => written.filter(({ method }) => method === 'DELETE').length;
      await runScheduleSet(owner, TARGET);
      cluster.interrupts = true;
      await expect(run(owner)).rejects.toThrow();
      expect(deletes()).toBe(1);
      cluster.interrupts = false;
      await run(owner);
      expect(deletes()).toBe(2); // the schedule still named the store, so the second run looked again
    },
  );

  test.each([
    { name: 'a store without an endpoint', change: { store: {} } },
    { name: 'an endpoint with a path', change: { store: { s3Endpoint: 'https://s3.example.org/x' } } },
    { name: 'an endpoint with a password', change: { store: { s3Endpoint: 'https://u:p@s3.example.org' } } },
    { name: 'a file without certificates', change: { store: { ...FLAGS, s3Ca: layout.backupCredentials } } },
    { name: 'a CA file that does not exist', change: { store: { ...FLAGS, s3Ca: '/none' } } },
    { name: 'a target without a bucket', change: { copyTo: 's3://' } },
    { name: 'a bucket that is a path', change: { copyTo: 's3://../x' } },
    { name: 'a prefix that leads out of the bucket', change: { copyTo: 's3://backups/../x' } },
    { name: 'flags of a store for a directory', change: { copyTo: '/mnt/backups' } },
    { name: 'flags of a store without a target', change: { copyTo: undefined } },
  ])('set refuses $name, and writes nothing', async ({ change }) => {
    const { owner, cluster, written } = await createWithKubernetes();
    expect(await codeOf(runScheduleSet(owner, { ...TARGET, ...change }))).toBe('app-usage');
    expect([cluster.certificate.length, written.length]).toEqual([0, 0]);
  });

  test('set refuses an access key that is missing, malformed, or readable by others, and writes nothing', async () => {
    const { owner, cluster, files, written } = await createWithKubernetes();
    const path = layout.backupCredentials;
    await files.writeAtomic(path, fileOf('hunter2'), { mode: 0o644 });
    expect(await codeOf(runScheduleSet(owner, TARGET))).toBe('workspace-key-mode');
    await files.writeAtomic(path, 'hunter2', { mode: 0o600 });
    expect(await codeOf(runScheduleSet(owner, TARGET))).toBe('objectstore-credentials-invalid');
    await files.remove(path);
    expect(await codeOf(runScheduleSet(owner, TARGET))).toBe('objectstore-credentials-invalid');
    expect([cluster.certificate.length, written.length]).toEqual([0, 0]);
  });
});

describe('backups that control planes keep', () => {
  /** Adds a backup to the cluster that a control plane has taken by schedule. */
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

  test('are listed with what was proved about them', async () => {
    const { owner } = await createCluster();
    await runClusterBackupList(owner, { node: undefined });
    expect(lastOf(owner)).toMatchObject({
      backups: [
        { seq: 2, node: 'n1', proof: 'TAKEN' },
        { seq: 1, node: 'n1', proof: 'CONTENT-PROVED', proofPlace: 'clear', proofBytes: 4096 },
      ],
    });
    expect(textOf(owner)).toMatch(/TAKEN +no$/m);
    expect(textOf(owner)).toMatch(/CONTENT-PROVED \(on an unencrypted disk\) +yes$/m);
    await runClusterBackupList(owner, { node: 'n2' });
    expect(lastOf(owner)).toEqual({ backups: [] });
  });

  test('backup fetch downloads and verifies the newest proved backup', async () => {
    const { owner, cluster, to } = await withFile();
    await runBackupFetch(owner, { name: undefined, to });
    expect(Buffer.compare(await readFile(to), cluster.file)).toBe(0);
    expect(lastOf(owner)).toMatchObject({ node: 'n1', proof: 'CONTENT-PROVED', nodeId: NODE });
  });

  test('backup fetch without a name passes over a backup whose control plane does not respond, and says so', async () => {
    const { owner, cluster, to } = await withFile();
    cluster.away = [3];
    await runBackupFetch(owner, { name: undefined, to });
    expect(Buffer.compare(await readFile(to), cluster.file)).toBe(0);
    expect(owner.host.records).toContainEqual(expect.objectContaining({ code: 'backup-fetch-passed-over' }));
    const name = '00000003-20270115T080000000Z.backup';
    const named = runBackupFetch(owner, { name, to: `${to}-2` });
    expect(await codeOf(named)).toBe('streams-node-away');
  });

  test('backup fetch refuses a file that differs from the hash in the record', async () => {
    const { owner, to } = await withFile({ sha256: '2'.repeat(64) });
    expect(await codeOf(runBackupFetch(owner, { name: undefined, to }))).toBe('backup-fetched-differs');
    await expect(readFile(to)).rejects.toThrow('ENOENT');
  });

  test('backup fetch refuses a file with an invalid signature', async () => {
    const { owner, cluster, to } = await withFile();
    cluster.file[cluster.file.length - 1] = (cluster.file.at(-1) ?? 0) ^ 1;
    expect(await codeOf(runBackupFetch(owner, { name: undefined, to }))).toBe('backup-signature-invalid');
  });

  /** A store that has a copy of a backup, and the flags that select this store. */
  async function withStore() {
    const created = await withFile();
    const store = await new FakeObjectStore().start();
    open.push(store);
    const { accessKeyId, secretAccessKey } = FAKE_ACCESS;
    const text = `aws_access_key_id=${accessKeyId}\naws_secret_access_key=${secretAccessKey}\n`;
    await created.owner.ports.files.writeAtomic('/access', text, { mode: 0o600 });
    const key = `blue/${created.clusterId}/${NODE}/00000007-20270115T080000000Z.backup`;
    store.objects.set(key, Buffer.from(created.cluster.file));
    store.objects.set('blue/notes.txt', Buffer.from('not a backup'));
    const flags = { s3Endpoint: store.endpoint, s3Credentials: '/access' };
    return { ...created, store, key, flags, url: `s3://${FAKE_BUCKET}/${key}` };
  }

  test('backup ls shows the copies in a store, newest first, and no other objects of the store', async () => {
    const { owner, store, key, url, flags, clusterId } = await withStore();
    store.objects.set(key.replace('00000007-20270115', '00000006-20270114'), Buffer.from('x'));
    await runStoreList(owner, `s3://${FAKE_BUCKET}/blue/`, flags);
    expect(lastOf(owner)).toMatchObject({
      backups: [
        { url, clusterId, nodeId: NODE, takenAt: '2027-01-15T08:00:00.000Z' },
        { takenAt: '2027-01-14T08:00:00.000Z', sizeBytes: 1 },
      ],
    });
  });

  test('backup fetch copies a backup from a store and verifies it', async () => {
    const { owner, cluster, to, url, flags } = await withStore();
    await runStoreFetch(owner, { ...flags, url, to });
    expect(Buffer.compare(await readFile(to), cluster.file)).toBe(0);
    expect(lastOf(owner)).toMatchObject({ status: 'good', url });
  });

  test.each([
    { name: 'empty', change: () => Buffer.alloc(0) },
    { name: 'cut', change: (bytes: Buffer) => bytes.subarray(0, -1) },
    { name: 'changed', change: (bytes: Buffer) => Buffer.from(bytes).fill(0, bytes.length - 64) },
    { name: 'no backup', change: () => Buffer.from('something else') },
  ])('backup fetch refuses an object that is $name, and writes no file', async ({ change }) => {
    const { owner, store, key, to, url, flags } = await withStore();
    store.objects.set(key, Buffer.from(change(store.objects.get(key) ?? Buffer.alloc(0))));
    expect(await codeOf(runStoreFetch(owner, { ...flags, url, to }))).toBe('backup-fetched-damaged');
    await expect(readFile(to)).rejects.toThrow('ENOENT');
  });

  test('backup fetch refuses an object that does not exist, and an object for which the store sends too many bytes', async () => {
    const { owner, store, to, url, flags } = await withStore();
    expect(await codeOf(runStoreFetch(owner, { ...flags, url: `${url}x`, to }))).toBe('backup-not-kept');
    store.fault = ({ method, key }, response) => {
      if (method !== 'GET' || key === '') return false;
      response.end(Buffer.alloc(2 * 1024 ** 2));
      return true;
    };
    expect(await codeOf(runStoreFetch(owner, { ...flags, url, to }))).toBe('backup-fetched-damaged');
    await expect(readFile(to)).rejects.toThrow('ENOENT');
  });

  test('backup fetch refuses the name of an unknown backup', async () => {
    const { owner, to } = await withFile();
    expect(await codeOf(runBackupFetch(owner, { name: 'x', to }))).toBe('backup-not-kept');
  });
});
