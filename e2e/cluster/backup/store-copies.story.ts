import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { ObjectStoreServer } from '../harness/object-store.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { createPrivateCa } from '../settings/private-ca.ts';

const NAME = 'store';
const ACCESS = { accessKeyId: 'AKSTORY', secretAccessKey: 'store-Xee7aiVo-secret' };
const WRONG = 'wrong-Ohx4ohng-secret';
const BUCKET = 'backups';
const PLACE = `s3://${BUCKET}/blue`;
/** Size of the store: enough for two backups, and small enough to be filled quickly. */
const SIZE_MIB = 192;
const WAIT_S = 240;

interface Copies {
  readonly names: readonly string[];
  readonly failure?: { readonly code: string; readonly message: string };
}

/** Tests a wrong access key, an unreachable store, a full store, and a workstation that has only the access key. */
async function copiesGoToStore(bench: Harness, cluster: StoryCluster): Promise<void> {
  const workspace = await cluster.workspace();
  const host = await cluster.workstation();
  const { caPem, issue } = await createPrivateCa(host);
  const options = { host, tls: await issue(), bucket: BUCKET, ...ACCESS, sizeMib: SIZE_MIB };
  await using store = await ObjectStoreServer.start(bench.directory, options);
  const ca = join(bench.directory, 'store-ca.pem');
  await writeFile(ca, caPem);
  const at = ['--s3-endpoint', store.endpoint, '--s3-ca', ca];
  const backup = <T>(...args: readonly string[]) =>
    cliJson<T>(bench, '--workspace', workspace, 'backup', ...args);
  const credentials = join(workspace, 'backup-credentials');
  const writeKey = (secret: string) => {
    const text = `[default]\naws_access_key_id = ${ACCESS.accessKeyId}\naws_secret_access_key = ${secret}\n`;
    return writeFile(credentials, text, { mode: 0o600 });
  };
  const copies = async (): Promise<Copies | undefined> =>
    (await backup<{ schedule: { copies: readonly Copies[] } }>('schedule', 'show')).schedule.copies[0];
  const failsWith = async (code: string) => {
    await eventually(`copies fail with ${code}`, WAIT_S, copies, (found) => found?.failure?.code === code);
    const doctor = await bench.cli('--workspace', workspace, 'doctor');
    assert.match(doctor.stdout, /\[doctor-backup-copies\]/);
    assert.match(doctor.stdout, new RegExp(code));
  };
  const newest = async () => {
    const { backups: kept } = await backup<{
      backups: readonly { name: string; proof: string; copied: boolean }[];
    }>('ls');
    return kept.find(({ proof }) => proof === 'CONTENT-PROVED');
  };
  const catchesUp = () =>
    eventually('the newest backup is copied', WAIT_S, newest, (found) => found?.copied === true);
  const stored = async () =>
    (await backup<{ backups: readonly { url: string; sizeBytes: number }[] }>('ls', PLACE, ...at)).backups;

  await writeKey(WRONG);
  await backup('schedule', 'set', '--every', '1m', '--keep', '2', '--copy-to', PLACE, ...at);
  await failsWith('objectstore-refused');
  await writeKey(ACCESS.secretAccessKey);
  const show = ['backup', 'schedule', 'show'] as const;
  const { schedule } = await cliJson<{ schedule: { again: string } }>(
    bench,
    '--workspace',
    workspace,
    ...show,
  );
  const [, ...again] = schedule.again.replace('--s3-ca FILE', `--s3-ca ${ca}`).split(' ');
  await bench.must('--workspace', workspace, ...again); // asks nothing, because it has every flag of the schedule
  await catchesUp();
  assert.equal((await copies())?.failure, undefined);

  // Fetches a backup without a workspace, as after the loss of every machine.
  const empty = join(bench.directory, 'empty');
  await mkdir(empty);
  const file = join(bench.directory, 'from-store.backup');
  const { url } = (await stored())[0] ?? assert.fail('nothing is in the store');
  const access = ['--workspace', empty, 'backup', 'fetch', url, ...at, '--s3-credentials', credentials];
  const fetched = await cliJson<{ status: string; sizeBytes: number }>(bench, ...access, '--to', file);
  assert.equal(fetched.status, 'owner-unknown');
  assert.equal((await readFile(file)).length, fetched.sizeBytes);
  assert.equal((await backup<{ status: string }>('verify', file)).status, 'FILE-PROVED');

  await store.order('stop');
  await failsWith('objectstore-unreachable');
  const before = (await newest())?.name ?? '';
  await eventually(
    'backups go on without the store',
    WAIT_S,
    newest,
    (found) => (found?.name ?? '') > before,
  );
  await store.order('start');
  await catchesUp();

  await store.order('fill');
  const whole = await stored();
  await failsWith('objectstore-full');
  assert.deepEqual(await stored(), whole);
  await store.order('free');
  await catchesUp();
  await eventually('two copies stay', WAIT_S, stored, (found) => found.length === 2);

  // Only the Secret contains the access key: no log and no file has it unencrypted.
  const secrets = `${ACCESS.secretAccessKey}|${WRONG}`;
  const leaked = await cluster.sh(
    'n1',
    `journalctl --no-pager | grep -cE '${secrets}' || true
     grep -rlE '${secrets}' /etc /run/cluster /var/lib/cluster /var/log 2>/dev/null || true`,
  );
  assert.equal(leaked.trim(), '0');
  await backup('schedule', 'stop', '--yes');
  const secret = await cluster.sh(
    'n1',
    'kubectl -n kube-system get secret cluster-backup-store --ignore-not-found',
  );
  assert.equal(secret, '');
}

await test('control planes copy scheduled backups to a real S3-compatible store', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  await story.test(
    'backups are copied to an S3-compatible store, also after the store was unreachable or full, and are fetched without a cluster',
    () => copiesGoToStore(bench, cluster),
  );
});
