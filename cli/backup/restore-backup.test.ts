import { createHash } from 'node:crypto';
import { afterEach, describe, expect, test } from '@jest/globals';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { generateWorkspace, openWorkspace } from '../cluster/index.ts';
import { parseClusterConfig } from '../../internal/config/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { createBackup, deleteBackups, TAKEN_MS } from './fake-backup.ts';
import { readKnownMachines } from '../sign/index.ts';
import { workspaceOf } from './prepare-restore.ts';
import { beginRestore, runRestore, type RestoreOptions } from './restore-backup.ts';

afterEach(deleteBackups);

test('a restore deletes the saved new cluster CA of the workspace, because the backup may be older than that rotation', async () => {
  const files = new MemoryFiles();
  const context = contextOf(files, '/owner');
  await generateWorkspace(context, { name: 'prod' });
  const { clusterCa: path } = layoutOf('/owner');
  await files.writeAtomic(path, '{"version":1}');
  const restore = { fileSha256: 'ab'.repeat(32), epoch: 2 };
  await beginRestore(context, { ...restore, keptWorkers: [], otherMachines: [] });
  expect(await files.stat(path)).toBeUndefined();
  await using workspace = await openWorkspace(context, 'test');
  // Without kept workers, older versions can read the file.
  expect(workspace.state.value.restore).toEqual(restore);
});

test('a restore remembers the machines of the old cluster whose files it deletes, except kept workers, and its preview names those that it knows', async () => {
  const { files, file } = await createBackup();
  const context = contextOf(files, '/owner');
  const { clusterId } = await workspaceOf(context);
  const machine = { identity: `tpm-ek:${'5'.repeat(64)}`, nodeId: `node-${'5'.repeat(32)}`, name: 'n5' };
  await files.makeDirectory('/owner/machines');
  await files.writeAtomic('/owner/machines/n5.json', JSON.stringify({ ...machine, clusterId }));
  const kept = { nodeId: `node-${'6'.repeat(32)}`, name: 'w6' };
  const worker = { ...kept, identity: `tpm-ek:${'6'.repeat(64)}`, clusterId };
  await files.writeAtomic('/owner/machines/w6.json', JSON.stringify(worker));
  await beginRestore(context, {
    fileSha256: 'ab'.repeat(32),
    epoch: 2,
    keptWorkers: [kept],
    otherMachines: [],
  });
  expect(await files.stat('/owner/machines/n5.json')).toBeUndefined();
  expect(await readKnownMachines(files, { directory: '/owner', clusterId })).toEqual([machine]);
  await runRestore(context, file, { ...OPTIONS, dryRun: true });
  expect(context.host.answered).toMatchObject({
    losses: expect.arrayContaining([
      'the removals of machines since then, except those that this workspace and --removed-machines know (n5)',
    ]) as unknown,
  });
});

test('the preview of a restore says that kept workers report the removals that they know', async () => {
  const { files, file } = await createBackup({ nodes: [WORKER] });
  const context = contextOf(files, '/owner');
  await runRestore(context, file, { ...OPTIONS, keepWorkers: ['w1'], dryRun: true });
  expect(context.host.answered).toMatchObject({
    losses: expect.arrayContaining([
      expect.stringMatching(/--removed-machines know \(none\); kept workers report those that they know$/),
    ]) as unknown,
  });
});

test('a restore refuses the machines that other workspaces of the cluster know, and no list of another cluster', async () => {
  const { files, file } = await createBackup({ nodes: [WORKER] });
  const context = contextOf(files, '/owner');
  const { clusterId } = await workspaceOf(context);
  const machine = { identity: `tpm-ek:${'5'.repeat(64)}`, nodeId: `node-${'5'.repeat(32)}`, name: 'n5' };
  const removed = { identity: `tpm-ek:${'6'.repeat(64)}`, nodeId: WORKER.nodeId, name: WORKER.name };
  const write = (name: string, over: object) =>
    files.writeAtomic(name, JSON.stringify({ version: 1, clusterId, machines: [machine], ...over }));
  await write('/one.json', {});
  await write('/two.json', { machines: [machine, removed] });
  await write('/other.json', { clusterId: 'c0ffee' });
  const run = (names: readonly string[], keepWorkers: readonly string[] = []) =>
    runRestore(context, file, { ...OPTIONS, removedMachines: names, keepWorkers, dryRun: true });
  for (const name of ['/other.json', '/missing.json'])
    await expect(run(['/one.json', name])).rejects.toMatchObject({ code: 'backup-removed-machines' });
  await run(['/one.json', '/two.json']);
  expect(context.host.answered).toMatchObject({
    losses: expect.arrayContaining([expect.stringMatching(/--removed-machines know \(n5, w1\)$/)]) as unknown,
  });
  await expect(run(['/two.json'], ['w1'])).rejects.toMatchObject({ code: 'backup-worker-removed' });
  await run(['/one.json'], ['w1']);
  await beginRestore(context, {
    ...{ fileSha256: 'ab'.repeat(32), epoch: 2, keptWorkers: [], otherMachines: [machine] },
  });
  expect(await readKnownMachines(files, { directory: '/owner', clusterId })).toEqual([machine]);
});

const WORKER = { nodeId: `node-${'2'.repeat(32)}`, name: 'w1', roles: ['KubernetesWorker'] };
const OPTIONS: RestoreOptions = {
  ...{ ownerKey: undefined, recoveryKey: undefined, fingerprint: undefined, node: '192.0.2.1' },
  ...{
    controlPlanes: [],
    keepWorkers: [],
    removedMachines: [],
    workDir: undefined,
    acceptOlderEpoch: false,
    dryRun: false,
    yes: false,
  },
};

describe('runRestore()', () => {
  test('with --dry-run verifies the backup and shows what is lost, and changes nothing', async () => {
    const { files, file } = await createBackup();
    const { host, ...rest } = contextOf(files, '/owner');
    const before = await files.list('/owner');
    await runRestore({ host, ...rest }, file, { ...OPTIONS, dryRun: true });
    expect(host.answered).toMatchObject({
      ...{ dryRun: true, clusterName: 'prod', takenMs: TAKEN_MS, kind: 'begin', epoch: 2 },
      losses: expect.arrayContaining([expect.stringContaining('all changes since 2027-01-15')]) as unknown,
    });
    expect(await files.list('/owner')).toEqual(before);
  });

  test.each([
    { what: 'of the workspace', workspace: '/owner', ownerKey: undefined },
    { what: 'in the backup', workspace: '/new', ownerKey: '/owner/owner-key.pem' },
  ])('names the settings of the cluster for which cluster.yaml $what has others', async (from) => {
    const { files, file } = await createBackup({
      configured: parseClusterConfig(
        'version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n',
        'cluster.yaml',
      ),
    });
    const context = contextOf(files, from.workspace);
    await runRestore(context, file, { ...OPTIONS, ownerKey: from.ownerKey, dryRun: true });
    expect(context.host.answered).toMatchObject({
      losses: expect.arrayContaining([
        expect.stringMatching(
          /^the settings that the cluster had for .*attestation.*: cluster.yaml has others$/,
        ),
      ]) as unknown,
    });
  });

  const node = (digit: string, name: string, ...roles: string[]) => ({
    ...{ nodeId: `node-${digit.repeat(32)}`, name, roles },
  });
  const NODES = [
    node('1', 'n1', 'ConsensusMember', 'KubernetesController', 'KubernetesWorker'),
    node('2', 'w1', 'KubernetesWorker'),
    node('3', 'w2', 'KubernetesWorker'),
    node('4', 'w3', 'KubernetesWorker'),
  ];

  test.each([
    {
      name: 'the workers of the backup that are not kept',
      ...{ nodes: NODES, keepWorkers: ['w2'] },
      want: 'the pods that still run on w1, w3: to keep them, name the workers that you trust (--keep-worker w1 --keep-worker w3)',
    },
    {
      name: 'that a backup without a list of nodes keeps no worker',
      ...{ nodes: undefined, keepWorkers: [] },
      want: 'the pods that still run on workers: the backup does not list its workers, so none can be kept',
    },
    {
      name: 'no pods if every worker is kept',
      ...{ nodes: NODES, keepWorkers: ['w1', 'w2', 'w3'] },
      want: undefined,
    },
  ])('names among the losses $name', async ({ nodes, keepWorkers, want }) => {
    const { files, file } = await createBackup({ ...(nodes && { nodes }) });
    const context = contextOf(files, '/owner');
    await runRestore(context, file, { ...OPTIONS, keepWorkers, dryRun: true });
    const { losses } = context.host.answered as { readonly losses: readonly string[] };
    expect(losses.filter((loss) => loss.startsWith('the pods '))).toEqual(want === undefined ? [] : [want]);
  });

  test('with --dry-run and the owner key needs no workspace, and creates none', async () => {
    const { files, file } = await createBackup();
    const context = contextOf(files, '/new');
    await runRestore(context, file, { ...OPTIONS, ownerKey: '/owner/owner-key.pem', dryRun: true });
    expect(context.host.answered).toMatchObject({ clusterName: 'prod', epoch: 2 });
    expect(await files.list('/new')).toEqual([]);
  });

  test('with the owner key creates no workspace before it was confirmed', async () => {
    const { files, file } = await createBackup();
    const options = { ...OPTIONS, ownerKey: '/owner/owner-key.pem' };
    await expect(runRestore(contextOf(files, '/new'), file, options)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
    });
    expect(await files.list('/new')).toEqual([]);
  });

  test('with --dry-run refuses a backup that the owner key did not sign', async () => {
    const { files, file } = await createBackup();
    await generateWorkspace(contextOf(files, '/other'), { name: 'other' });
    const other = { ...OPTIONS, ownerKey: '/other/owner-key.pem', dryRun: true };
    await expect(runRestore(contextOf(files, '/new'), file, other)).rejects.toMatchObject({
      code: 'backup-certificate-invalid',
    });
  });

  test('needs a confirmation before it begins, and none to continue', async () => {
    const { files, file, bytes } = await createBackup();
    const context = contextOf(files, '/owner');
    await expect(runRestore(context, file, OPTIONS)).rejects.toMatchObject({ code: 'loss-not-confirmed' });
    const stateOf = async () => {
      await using workspace = await openWorkspace(context, 'test');
      return workspace.state.value;
    };
    expect((await stateOf()).restore).toBeUndefined();
    const fileSha256 = createHash('sha256').update(bytes).digest('hex');
    await beginRestore(context, { fileSha256, epoch: 2, keptWorkers: [], otherMachines: [] });
    // It continues, and fails later: the databases of this backup are fake.
    await expect(runRestore(context, file, OPTIONS)).rejects.toMatchObject({
      code: expect.not.stringMatching(/^loss-/) as unknown,
    });
  });
});
