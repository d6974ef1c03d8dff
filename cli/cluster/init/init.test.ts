import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../../internal/bundle/index.ts';
import { afterEach, describe, expect, test } from '@jest/globals';
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { ownershipStatement } from '../../../internal/crypto/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { closeOpened, everyFault, MemoryFiles } from '../../../internal/testing/index.ts';
import { BLOB, BLOB_HASH, FakeNode } from './fake-node.ts';
import {
  asProcess,
  CACHE,
  contextOf,
  kubeconfigOf,
  NONE,
  prepareWorkspace,
  ROOT,
  start,
  stateOf,
} from './fake-workstation.ts';
import { runInit, runKubeconfig } from '../index.ts';

afterEach(closeOpened);

describe('runInit()', () => {
  test('creates a cluster and a kubeconfig from a new workspace, and signs its ownership', async () => {
    const { files, node, options } = await start();
    const context = contextOf(files);
    const summary = await runInit(context, options);
    expect(summary).toMatchObject({ clusterName: 'prod', nodeName: 'n1', unchanged: false });
    expect(context.host.codes).toEqual([
      'init-look',
      'init-connect',
      'init-verify',
      'init-machine-verified',
      'init-machine-warning',
      'init-preflight',
      'init-upload',
      'init-uploaded',
      'init-phase-lock',
      'init-phase-consensus',
      'init-phase-node',
      'init-acknowledge',
      'init-api',
    ]);
    const { init } = await stateOf(files);
    expect(init).toMatchObject({ stage: 'acknowledged' });
    expect(init?.request).toBeUndefined();
    expect((await files.stat(`${ROOT}/kubeconfig`))?.mode).toBe(0o600);
    const result = init?.result ?? { clusterId: '', clusterCaPem: '', epoch: '0' };
    const pubKey = createPublicKey(
      Buffer.from((await files.read(`${ROOT}/owner-key.pem`, 1e4)) ?? '').toString(),
    );
    const statement = ownershipStatement({ ...result, epoch: BigInt(result.epoch) });
    expect(verify(undefined, statement, pubKey, node.acknowledged[0] ?? new Uint8Array())).toBe(true);
  });

  const HOUR_MS = 3_600_000;
  test.each([
    { name: 'two hours ahead', aheadMs: 2 * HOUR_MS, message: '2h ahead of ours' },
    { name: 'a year behind', aheadMs: -365 * 24 * HOUR_MS, message: '365d behind ours' },
  ])(
    'sends nothing to a machine whose clock is $name, refuses it, and continues after the clock is corrected',
    async ({ aheadMs, message }) => {
      const { files, node, options } = await start();
      node.aheadMs = aheadMs;
      const refused = runInit(contextOf(files), options);
      await expect(refused).rejects.toThrow(message);
      await expect(refused).rejects.toMatchObject({ code: 'cluster-clocks-differ', exit: 'clock' });
      expect([node.inits, node.uploadOffsets]).toEqual([[], []]);
      node.aheadMs = 4 * 60_000;
      await expect(runInit(contextOf(files), options)).resolves.toMatchObject({ unchanged: false });
    },
  );

  const swapIsOn = {
    code: 'preflight-swap',
    subject: 'swap /dev/sda2',
    status: 'failed',
    figure: 'on',
    threshold: 'off',
    cause: 'swap is on: /dev/sda2',
    fix: 'turn it off',
  };
  const good = { ...swapIsOn, code: 'preflight-port', status: 'ok', cause: '', fix: '' };

  test('uploads nothing to a machine that fails preflight, and reports the code and fix of the machine', async () => {
    const { files, node, options } = await start();
    node.checks = [good, swapIsOn, { ...swapIsOn, code: 'preflight-disk', cause: 'the disk is full' }];
    const refused = runInit(contextOf(files), options);
    await expect(refused).rejects.toMatchObject({
      code: 'preflight-swap',
      exit: 'swap',
      fix: 'turn it off',
      message: expect.stringMatching(/swap is on: \/dev\/sda2 \(and 1 more: the disk is full\)/),
    });
    expect([node.inits, node.uploadOffsets, node.preflights.length]).toEqual([[], [], 1]);
    node.checks = [good, { ...swapIsOn, status: 'warning' }];
    const context = contextOf(files);
    await expect(runInit(context, options)).resolves.toMatchObject({ unchanged: false });
    expect(context.host.codes).toContain('preflight-swap');
  });

  test('names the sizes of the databases to a machine before it uploads anything to restore', async () => {
    const { files, node, options } = await start();
    node.checks = [{ ...swapIsOn, code: 'preflight-disk', cause: 'not enough space' }];
    const snapshot = (digit: string, sizeBytes: number) => ({
      ...{ sha256: digit.repeat(64), sizeBytes },
      read: () => assert.fail('a snapshot is read'),
    });
    const restore = {
      ...{ epoch: 2, state: snapshot('a', 7), kubernetes: snapshot('b', 5_000_000_000) },
      ...{ sharedKeys: new Secret({}), knownMachines: [], keptWorkers: [] },
    };
    const refused = runInit(contextOf(files), { ...options, restore });
    await expect(refused).rejects.toMatchObject({
      code: 'preflight-disk',
      message: expect.stringMatching(/not enough space/),
    });
    expect(node.preflights.at(-1)?.snapshots).toMatchObject([
      { sha256: 'a'.repeat(64), sizeBytes: 7n },
      { sha256: 'b'.repeat(64), sizeBytes: 5_000_000_000n },
    ]);
    expect([node.inits, node.uploadOffsets]).toEqual([[], []]);
  });

  test('treats an unknown check status as a failure', async () => {
    const { files, node, options } = await start();
    node.checks = [{ ...swapIsOn, code: 'No Code\u001b', status: 'splendid' }];
    const refused = runInit(contextOf(files), options);
    await expect(refused).rejects.toMatchObject({ code: 'cluster-machine-unfit', exit: 'preflight' });
    expect(node.uploadOffsets).toEqual([]);
  });

  test('skips preflight on a machine that has already accepted the init, because its own services use the ports', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: {
        code: 'preflight-port',
        message: 'taken',
        fix: 'stop it',
        retryable: true,
        phase: 'preflight',
      },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'preflight-port' });
    node.failure = undefined;
    node.checks = [swapIsOn];
    await runInit(contextOf(files), options);
    expect(node.preflights).toHaveLength(1);
  });

  test('reports on a second run that nothing was changed, without calling the machine', async () => {
    const { files, node, options } = await start();
    const first = await runInit(contextOf(files), options);
    await node[Symbol.asyncDispose]();
    const again = await runInit(contextOf(files), options);
    expect(again).toEqual({ ...first, unchanged: true });
  });

  test('creates a lost kubeconfig again, with the same key', async () => {
    const { files, options } = await start();
    await runInit(contextOf(files), options);
    const before = await kubeconfigOf(files);
    await files.remove(`${ROOT}/kubeconfig`);
    const context = contextOf(files);
    expect(await runInit(context, options)).toMatchObject({ unchanged: true });
    expect(await kubeconfigOf(files)).toBe(before);
    expect(context.host.codes).toContain('init-kubeconfig-restored');
  });

  test('prints the kubeconfig when the shell has emptied it (`cluster kubeconfig > kubeconfig`)', async () => {
    const { files, options } = await start();
    await runInit(contextOf(files), options);
    const before = await kubeconfigOf(files);
    await files.writeAtomic(`${ROOT}/kubeconfig`, '');
    const context = contextOf(files);
    await runKubeconfig(context, { merge: false, home: '/home/me' });
    expect(context.host.answered).toMatchObject({ kubeconfig: before });
    expect(context.host.codes).toContain('kubeconfig-recreated');
    expect(await kubeconfigOf(files)).toBe(before);
  });

  test('resumes the same init when state and kubeconfig are lost', async () => {
    const { files, node, options } = await start();
    await runInit(contextOf(files), options);
    const before = await kubeconfigOf(files);
    for (const name of ['kubeconfig', 'state.json']) await files.remove(`${ROOT}/${name}`);
    expect(await runInit(contextOf(files), options)).toMatchObject({ clusterName: 'prod', nodeName: 'n1' });
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
    const [key, keyBefore] = [await kubeconfigOf(files), before].map(
      (text) => /client-key-data: .*/.exec(text)?.[0],
    );
    expect(key).toBe(keyBefore);
    expect(key).toMatch(/: .{100}/);
  });

  test('shows the code, message, fix and exit code of a failed phase', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: {
        code: 'file-no-space',
        message: 'writing /x',
        fix: 'free it',
        retryable: true,
        phase: 'images',
      },
    };
    const failed = runInit(contextOf(files), options);
    await expect(failed).rejects.toMatchObject({
      code: 'file-no-space',
      exit: 'diskFull',
      retryable: true,
      fix: 'free it',
    });
    node.failure = undefined;
    await expect(runInit(contextOf(files), options)).resolves.toMatchObject({ unchanged: false });
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
  });

  const refusals = [
    {
      name: 'an owner key that the machine does not know',
      change: async (files: MemoryFiles) => {
        const { ownerKey } = await generateOther();
        await files.writeAtomic(`${ROOT}/owner-key.pem`, ownerKey);
      },
      want: { code: 'cluster-owner-refused', exit: 'refused' },
    },
    {
      name: 'a machine with another fingerprint',
      options: { fingerprint: `sha256:${'0'.repeat(64)}` },
      want: {
        code: 'cluster-other-machine',
        exit: 'refused',
        message: expect.stringMatching(/has fingerprint sha256:(?!0{9})[0-9a-f]{64}, expected sha256:0{64}$/),
      },
    },
    {
      name: 'a machine with an unknown fingerprint, which nobody can confirm without a terminal,',
      options: { fingerprint: undefined },
      want: { code: 'cluster-no-fingerprint', exit: 'usage' },
    },
    {
      name: 'a machine of another cluster',
      node: (node: FakeNode) => void (node.ownedBy = 'ff'),
      want: { code: 'cluster-machine-taken', details: { clusterId: 'ff' } },
    },
    {
      name: 'an unknown version of Kubernetes',
      options: { kubernetesVersion: 'v1.2.3' },
      want: { code: 'bundle-version-unknown' },
    },
    {
      name: 'a version without a bundle on the workstation',
      options: { kubernetesVersion: KUBERNETES_VERSIONS[0] },
      want: { code: 'cluster-bundle-missing', exit: 'preflight' },
    },
    {
      name: 'a chart that does not exist',
      options: { charts: { kind: 'only', name: 'x' } as const },
      want: { code: 'charts-unknown' },
    },
  ];
  test.each(refusals)(
    'without any request to the machine, refuses $name',
    async ({ change, node: tweak, options: other, want }) => {
      const { files, node, options } = await start();
      tweak?.(node);
      await change?.(files);
      await expect(runInit(contextOf(files), { ...options, ...other })).rejects.toMatchObject(want);
      expect(node.inits).toHaveLength(0);
      expect((await stateOf(files)).init).toBeUndefined();
    },
  );

  test('refuses a different machine than the one with which the init was started', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    const other = { ...options, fingerprint: `sha256:${'1'.repeat(64)}` };
    await expect(runInit(contextOf(files), other)).rejects.toMatchObject({ code: 'cluster-other-machine' });
  });

  test('refuses to resume with a changed configuration once the machine has accepted the init', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    await files.writeAtomic(
      `${ROOT}/cluster.yaml`,
      'version: 1\nname: other\nattestation: {variants: [machine-key], firstContact: fingerprint}\n',
    );
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-config-changed',
    });
  });

  test('resumes with the bundle of the first run if the bundle was rebuilt since', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    const before = node.accepted?.spec.bundleManifest;
    const path = `${CACHE}/bundles/kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-amd64.json`;
    const text = Buffer.from((await files.read(path, 1e6)) ?? []).toString();
    await files.writeAtomic(path, text.replace('3.6.6', '3.6.7'));
    node.failure = undefined;
    const context = contextOf(files);
    await runInit(context, options);
    expect(context.host.codes).toContain('init-bundle-kept');
    expect(node.accepted?.spec.bundleManifest).toEqual(before);
  });

  test('discards a result whose certificates are for other keys', async () => {
    const { files, node, options } = await start();
    node.failure = { case: 'result', value: { clusterId: 'wrong' } };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-result-invalid',
    });
    expect((await stateOf(files)).init?.stage).toBe('requested');
    expect([await files.stat(`${ROOT}/kubeconfig`), node.acknowledged]).toEqual([undefined, []]);
  });

  test('discards a result with a node name that is not a DNS label', async () => {
    const { files, node, options } = await start();
    node.nodeName = 'n1\n  kubeconfig  /tmp/forged';
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-result-invalid',
    });
    expect((await stateOf(files)).init?.result).toBeUndefined();
  });

  test('resumes after a crash before and after every write', async () => {
    const seen = new Set<string>();
    const disks = new Map<MemoryFiles, FakeNode>();
    const pending: MemoryFiles[] = [];
    const cases = everyFault({
      faults: ['crash-before', 'crash-after'],
      prepare: async (disk) => {
        const node = await FakeNode.start([await prepareWorkspace(disk)]);
        node.blobs.set(BLOB_HASH, BLOB);
        disks.set(disk, node);
        pending.push(disk);
      },
      run: async (files) => {
        const node = disks.get(pending.at(-1) ?? new MemoryFiles());
        if (node === undefined) throw new Error('no node');
        await runInit(contextOf(files), { node: node.endpoint, fingerprint: node.fingerprint, charts: NONE });
      },
    });
    for await (const { disk, name } of cases) {
      const node = disks.get(disk);
      if (node === undefined) throw new Error('no node');
      await asProcess(disk, 2); // the crashed process no longer exists
      const summary = await runInit(contextOf(disk), {
        node: node.endpoint,
        fingerprint: node.fingerprint,
        charts: NONE,
      });
      expect({ name, clusterName: summary.clusterName }).toEqual({ name, clusterName: 'prod' });
      expect(new Set(node.inits.map(({ initId }) => initId)).size).toBeLessThanOrEqual(1);
      expect((await stateOf(disk)).init?.stage).toBe('acknowledged');
      seen.add(name.replace(/\.lock\..*$/, '.lock'));
    }
    expect([...seen].filter((name) => name.includes('state.json'))).toHaveLength(2);
    expect(seen.size).toBeGreaterThanOrEqual(6);
  }, 240_000);
});

async function generateOther(): Promise<{ ownerKey: string }> {
  const files = new MemoryFiles();
  await prepareWorkspace(files);
  return { ownerKey: Buffer.from((await files.read(`${ROOT}/owner-key.pem`, 1e4)) ?? '').toString() };
}
