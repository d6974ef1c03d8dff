import { describe, expect, test } from '@jest/globals';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { PlatformError } from '../../../internal/platform/index.ts';
import { createMemoryLogger, MemoryFiles, settle } from '../../../internal/testing/index.ts';
import {
  createControlPlane,
  never,
  placeAuthority,
  placeKubelet,
  placeSharedKeys,
  runAll,
  settings,
  silent,
} from '../fake-machine.ts';
import { StepCheckpoints } from '../step-checkpoints.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { retireControlPlane } from './retire-control-plane.ts';
import { apiEndpointOf, PATHS } from '../settings.ts';
import { KUBELET_UNIT } from '../node/units.ts';

describe('ControlPlane', () => {
  test('runs the kubeadm phases in order, creates no tokens, and leaves no super-admin.conf on disk', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await bed.files.writeAtomic(PATHS.superAdminConf, 'x');
    await runAll(bed.create());
    expect(bed.phasesRun()).toEqual([
      'control-plane all',
      'upload-config all',
      'addon coredns',
      'addon kube-proxy',
      'mark-control-plane',
    ]);
    expect(await bed.files.stat(PATHS.superAdminConf)).toBeUndefined();
  });

  test.each([
    { name: 'kube-proxy for the same endpoint', server: apiEndpointOf(settings), want: [] },
    { name: 'no kube-proxy that operators removed', proxy: '', want: [] },
    {
      name: 'writes kube-proxy again for another endpoint of API servers',
      server: '198.18.0.9:6443',
      want: ['addon kube-proxy'],
    },
  ])('leaves DNS of a restored cluster as its backup has it, and $name', async (restored) => {
    const { proxy = 'daemonset.apps/kube-proxy\n', server = '', want } = restored;
    const bed = createControlPlane((argv) => {
      if (!argv.includes('kube-proxy') || !argv.includes('get') || argv.includes('json')) return undefined;
      return argv.includes('daemonset') ? proxy : `clusters:\n- cluster:\n    server: https://${server}\n`;
    });
    await placeAuthority(bed.files);
    await runAll(bed.create({}, true, true));
    expect(bed.phasesRun()).toEqual([
      'control-plane all',
      'upload-config all',
      ...want,
      'mark-control-plane',
    ]);
  });

  test('creates the certificates of the first node’s kubelet from the new CA', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await bed.create().createPki(silent, never);
    const read = async (path: string): Promise<string> =>
      Buffer.from((await bed.files.read(path, 65_536)) ?? []).toString('utf8');
    const client = new X509Certificate(await read(KUBELET_FILES.clientCert));
    const serving = new X509Certificate(await read(KUBELET_FILES.servingCert));
    // The user id in the last field tells API servers which machine the kubelet runs on
    // (./authorization-config.ts).
    expect(client.subject.split('\n')).toEqual([
      'CN=system:node:n1',
      'O=system:nodes',
      '1.3.6.1.4.1.57683.2=node-1',
    ]);
    expect([client.keyUsage, serving.keyUsage]).toEqual([['1.3.6.1.5.5.7.3.2'], ['1.3.6.1.5.5.7.3.1']]);
    expect([serving.checkHost('n1'), serving.checkIP(settings.nodeAddress)]).not.toContain(undefined);
    expect(serving.publicKey.equals(client.publicKey)).toBe(false);
    expect(await read(PATHS.kubeletConf)).toContain(KUBELET_FILES.clientCert);
    expect(await read(PATHS.kubeletConf)).not.toContain('PRIVATE KEY');
  });

  test('a control plane that joins creates no shared keys and skips the phases of the first control plane', async () => {
    const bed = createControlPlane();
    await placeKubelet(bed.files);
    const said: string[] = [];
    const running = runAll(bed.create({}, false), { ...silent, report: (text) => said.push(text) });
    await settle();
    expect(said.join()).toContain('/etc/kubernetes/pki/ca.crt');
    expect(bed.phasesRun()).toEqual([]);
    await placeSharedKeys(bed.files);
    await bed.clock.advance(1_000);
    await running;
    expect(bed.phasesRun()).toEqual(['control-plane all', 'mark-control-plane']);
    expect(Buffer.from((await bed.files.read(PATHS.encryption, 99)) ?? []).toString()).toBe('shared');
  });

  test('a promotion does not restart the kubelet', async () => {
    const bed = createControlPlane();
    await placeKubelet(bed.files);
    const kubelet = bed.kubelet();
    await kubelet.writeKubeconfig();
    await kubelet.start(silent, never);
    expect(bed.units.moves).toEqual([`start ${KUBELET_UNIT}`]);
    expect(bed.phasesRun()).toEqual([]);
    await placeSharedKeys(bed.files);
    await runAll(bed.create({ runsWorkloads: true }, false));
    expect(bed.units.moves.filter((move) => /restart|stop/.test(move))).toEqual([]);
  });

  test('a control plane does not start a kubelet without its certificates', async () => {
    const bed = createControlPlane();
    await expect(bed.kubelet().writeKubeconfig()).rejects.toMatchObject({
      code: 'kubernetes-credentials-missing',
    });
  });

  test('a second start() repeats no step, but starts the kubelet after a reboot', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await runAll(bed.create());
    const before = bed.phasesRun().length;
    bed.units.active.clear();
    let found = 0;
    await runAll(bed.create(), { report: () => undefined, reportUnchanged: () => void found++ });
    expect(bed.phasesRun()).toHaveLength(before);
    expect(found).toBe(3);
    expect(bed.units.active).toEqual(new Set([KUBELET_UNIT]));
  });

  test('start() resumes with the kubeadm phase that failed', async () => {
    let broken = true;
    const bed = createControlPlane((argv) =>
      broken && argv.includes('addon') && argv.includes('coredns')
        ? { exitCode: 1, output: 'error: no route to host' }
        : undefined,
    );
    await placeAuthority(bed.files);
    await expect(runAll(bed.create())).rejects.toMatchObject({
      code: 'kubernetes-kubeadm-failed',
      message: expect.stringContaining('no route to host'),
    });
    broken = false;
    const before = bed.phasesRun().length;
    await runAll(bed.create());
    expect(bed.phasesRun().slice(before)).toEqual([
      'upload-config all',
      'addon coredns',
      'addon kube-proxy',
      'mark-control-plane',
    ]);
  });

  test('reports the API response when kubeadm reports only a timeout', async () => {
    const bed = createControlPlane((argv) =>
      argv.includes('upload-config') ? { exitCode: 1, output: 'would exceed context deadline' } : undefined,
    );
    bed.refusals.push(new Error('127.0.0.1:6445 answered 401: Unauthorized'));
    await expect(runAll(bed.create())).rejects.toMatchObject({
      code: 'kubernetes-kubeadm-failed',
      message: expect.stringMatching(
        /would exceed context deadline.*; response to the same user: 127\.0\.0\.1:6445 answered 401: Unauthorized$/,
      ),
      details: { phase: 'upload-config all' },
    });
    const { endpoint, certPem, keyPem, caPem } = bed.asked[0] ?? {};
    const certificate = new X509Certificate(certPem ?? '');
    expect([endpoint, certificate.subject]).toEqual([
      '127.0.0.1:6445',
      'CN=kubernetes-admin\nO=kubeadm:cluster-admins',
    ]);
    expect(certificate.checkPrivateKey(createPrivateKey(keyPem?.reveal() ?? ''))).toBe(true);
    expect(new X509Certificate(caPem ?? '').subject).toBe('CN=kubernetes');
  });

  test('never replaces the key that encrypts Secrets at rest', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await bed.create().createPki(silent, never);
    const key = await bed.files.read(PATHS.encryption, 4096);
    await bed.create({ apiServerSans: ['other.example.test'] }).createPki(silent, never);
    expect(await bed.files.read(PATHS.encryption, 4096)).toEqual(key);
  });

  const API_LOGS = '/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver';
  test.each([
    {
      name: 'the API server',
      logs: {
        '9.log': 'old\n',
        '10.log': 'one\netcd: permission denied\n',
        '9.log.20261121-000000': 'older\n',
      },
      want: 'log of the API server: one | etcd: permission denied',
    },
    {
      name: 'the kubelet (the log of the API server is too large)',
      logs: { '0.log': 'x'.repeat(17 * 1024 * 1024) },
      want: 'log of the kubelet: pulling',
    },
    {
      name: 'the kubelet (the API server has no log)',
      logs: {},
      want: 'log of the kubelet: pulling',
    },
  ])('reports the log of $name when the API server does not become ready', async ({ logs, want }) => {
    const bed = createControlPlane();
    await bed.files.makeDirectory(API_LOGS);
    for (const [name, text] of Object.entries(logs)) await bed.files.writeAtomic(`${API_LOGS}/${name}`, text);
    bed.units.logs.set(KUBELET_UNIT, ['pulling']);
    await bed.files.makeDirectory('/var/lib/cluster/kubernetes');
    bed.probes.push(...Array.from({ length: 5000 }, () => new Error('connect ECONNREFUSED')));
    const started = bed
      .create()
      .start(silent, never)
      .catch((error: unknown) => error);
    await settle();
    await bed.clock.advance(500_000);
    expect(await started).toMatchObject({
      code: 'kubernetes-api-timeout',
      message: expect.stringContaining(want),
      cause: new Error('connect ECONNREFUSED'),
    });
  });

  test.each([
    { name: 'admission configuration', path: PATHS.admission },
    { name: 'audit policy', path: PATHS.auditPolicy },
  ])('writes the $name before it writes the static pods', async ({ path }) => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    let isThere: boolean | undefined;
    const run = bed.commands.run.bind(bed.commands);
    bed.commands.run = async (command) => {
      if (command.argv.includes('control-plane')) isThere = (await bed.files.stat(path)) !== undefined;
      return run(command);
    };
    await runAll(bed.create());
    expect(isThere).toBe(true);
  });

  test('rejects with kubernetes-kubelet-failed when the kubelet does not start', async () => {
    const bed = createControlPlane();
    await bed.files.makeDirectory('/var/lib/cluster/kubernetes');
    bed.units.start = () =>
      Promise.reject(
        new PlatformError('platform-unit-failed', 'starting kubelet.service: no such cgroup driver'),
      );
    await expect(bed.create().start(silent, never)).rejects.toMatchObject({
      code: 'kubernetes-kubelet-failed',
      message: expect.stringContaining('no such cgroup driver'),
    });
  });

  test.each([
    { name: 'waits for an API server that was started again 3 times', before: 7, now: 10, isOver: false },
    {
      name: 'does not wait for an API server that was started again 4 times',
      before: 7,
      now: 11,
      isOver: true,
    },
    { name: 'does not count the first start of the API server', before: undefined, now: 3, isOver: false },
  ])('start() $name', async ({ before, now, isOver }) => {
    const bed = createControlPlane();
    await bed.files.makeDirectory('/var/lib/cluster/kubernetes');
    await bed.files.makeDirectory(API_LOGS);
    if (before !== undefined) await bed.files.writeAtomic(`${API_LOGS}/${before}.log`, 'earlier\n');
    bed.probes.push(...Array.from({ length: 5000 }, () => new Error('connect ECONNREFUSED')));
    const ended: unknown[] = [];
    const started = bed.create().start(silent, never);
    started.catch((error: unknown) => void ended.push(error));
    await settle();
    await bed.clock.advance(2_000);
    await bed.files.writeAtomic(`${API_LOGS}/${now}.log`, 'unknown flag: --no-such\n');
    await bed.clock.advance(10_000);
    const failed = {
      code: 'kubernetes-api-timeout',
      message: expect.stringContaining('it was started again 4 times: log of the API server: unknown flag'),
    };
    expect(ended).toEqual(isOver ? [expect.objectContaining(failed)] : []);
  });

  test('start() does not wait for a kubelet that fails repeatedly', async () => {
    const bed = createControlPlane();
    await bed.files.makeDirectory('/var/lib/cluster/kubernetes');
    bed.probes.push(...Array.from({ length: 5000 }, () => new Error('connect ECONNREFUSED')));
    bed.units.restarts.set(KUBELET_UNIT, 5);
    bed.units.logs.set(KUBELET_UNIT, ['failed to run Kubelet: running with swap on is not supported']);
    const started = bed
      .create()
      .start(silent, never)
      .catch((error: unknown) => error);
    await settle();
    await bed.clock.advance(10_000);
    expect(await started).toMatchObject({
      code: 'kubernetes-kubelet-failed',
      message: expect.stringContaining('swap'),
    });
  });
});

test('a change of runsWorkloads repeats no step, even after a restart of the agent', async () => {
  const bed = createControlPlane();
  await placeAuthority(bed.files);
  await runAll(bed.create({ runsWorkloads: false }));
  const before = bed.phasesRun().length;
  await runAll(bed.create({ runsWorkloads: true }));
  expect(bed.phasesRun()).toHaveLength(before);
});

test('a new audit policy replaces the file and restarts no static pod', async () => {
  const bed = createControlPlane();
  await placeAuthority(bed.files);
  await runAll(bed.create());
  const before = bed.phasesRun().length;
  const policy = await bed.files.read(PATHS.auditPolicy, 65_536);
  await bed.files.writeAtomic(PATHS.auditPolicy, 'of an earlier release');
  await runAll(bed.create());
  expect(await bed.files.read(PATHS.auditPolicy, 65_536)).toEqual(policy);
  expect(bed.phasesRun()).toHaveLength(before);
  expect(bed.units.moves.filter((move) => /restart|stop/.test(move))).toEqual([]);
});

test('start() writes the static pods again after a demotion deleted them', async () => {
  const bed = createControlPlane();
  await placeAuthority(bed.files);
  await runAll(bed.create());
  await bed.files.remove(`${PATHS.manifests}/kube-apiserver.yaml`);
  await runAll(bed.create());
  expect(bed.phasesRun().filter((phase) => phase === 'control-plane all')).toHaveLength(2);
});

test('parallel calls of StepCheckpoints.clear() leave no checkpoint behind', async () => {
  const files = new MemoryFiles();
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  const checkpoints = new StepCheckpoints(files);
  for (const name of ['kubelet', 'pki', 'settings']) await checkpoints.record(name, 1);
  await Promise.all([checkpoints, new StepCheckpoints(files)].map((each) => each.clear(['pki', 'settings'])));
  expect(
    await Promise.all(['kubelet', 'pki', 'settings'].map((name) => checkpoints.isDone(name, 1))),
  ).toEqual([true, false, false]);
});

describe('retireControlPlane()', () => {
  test('stops the static pods, waits until none of them listens, then deletes every control-plane key', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await bed.create().createPki(silent, never);
    await bed.files.makeDirectory(PATHS.manifests);
    await bed.files.writeAtomic(`${PATHS.manifests}/kube-apiserver.yaml`, 'x');
    await bed.files.writeAtomic(PATHS.adminConf, 'x');
    const listening = [true, true, false];
    const seen: unknown[] = [];
    const checkpoints = new StepCheckpoints(bed.files);
    const ports = {
      ...bed,
      checkpoints,
      log: createMemoryLogger().log,
      isListening: async (_: string, port: number) => {
        if (port !== 6443) return false;
        seen.push(await bed.files.stat(`${PATHS.pki}/ca.key`));
        return listening.shift() ?? false;
      },
    };
    const retired = retireControlPlane(ports, { ...settings, signal: never });
    await bed.clock.advance(5_000);
    expect(await retired).toBe(true);
    // The keys existed whenever the API server answered.
    expect(seen).toHaveLength(3);
    expect(seen).not.toContain(undefined);
    expect(await bed.files.list(PATHS.pki)).toEqual([]);
    expect(await bed.files.list(PATHS.manifests)).toEqual([]);
    expect(await bed.files.stat(PATHS.encryption)).toBeUndefined();
    expect(await bed.files.stat(PATHS.adminConf)).toBeUndefined();
    expect(bed.units.moves.filter((move) => move.includes('stop'))).toEqual([]);
    expect(await retireControlPlane(ports, { ...settings, signal: never })).toBe(false);
  });

  test('changes the control-plane generation in static pods, so that the kubelet does not treat them as crashed', async () => {
    const bed = createControlPlane();
    const ports = {
      ...bed,
      checkpoints: new StepCheckpoints(bed.files),
      log: createMemoryLogger().log,
      isListening: () => Promise.resolve(false),
    };
    const environments = async (): Promise<readonly unknown[]> => {
      await placeAuthority(bed.files);
      await bed.create().createPki(silent, never);
      const text = Buffer.from((await bed.files.read(PATHS.kubeadmConfig, 65_536)) ?? []).toString();
      const [, cluster = ''] = text.split('\n---\n');
      const { apiServer, controllerManager, scheduler } = JSON.parse(cluster) as Record<
        string,
        { extraEnvs?: unknown }
      >;
      return [apiServer, controllerManager, scheduler].map((pod) => pod?.extraEnvs);
    };
    const seen = [await environments()];
    for (let round = 0; round < 2; round++) {
      const retired = retireControlPlane(ports, { ...settings, signal: never });
      await bed.clock.advance(5_000);
      await retired;
      seen.push(await environments());
      expect(await environments()).toEqual(seen.at(-1)); // after a restart of the agent
    }
    expect(seen[0]).toEqual([undefined, undefined, undefined]);
    expect(new Set(seen.flat().map((environment) => JSON.stringify(environment))).size).toBe(3);
  });

  test('keeps the keys while a component still listens, and names that component in the error', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await bed.files.writeAtomic(PATHS.adminConf, 'x');
    const ports = {
      ...bed,
      checkpoints: new StepCheckpoints(bed.files),
      log: createMemoryLogger().log,
      isListening: (_: string, port: number) => Promise.resolve(port === 10257),
    };
    const retired = retireControlPlane(ports, { ...settings, signal: never }).catch(
      (error: unknown) => error,
    );
    await bed.clock.advance(100_000);
    expect(await retired).toMatchObject({
      code: 'kubernetes-still-running',
      message: expect.stringContaining('kube-controller-manager'),
    });
    expect(await bed.files.stat(`${PATHS.pki}/ca.key`)).toBeDefined();
  });
});
