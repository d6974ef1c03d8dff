import { describe, expect, test } from '@jest/globals';
import type { Component } from '../../internal/bundle/index.ts';
import {
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  createMemoryLogger,
  type CommandAnswer,
} from '../../internal/testing/index.ts';
import type { PhaseProgress } from '../phases/index.ts';
import { importImages, installBinaries, installPath } from './components.ts';
import { ControlPlane } from './control-plane.ts';
import { Kubeadm } from './kubeadm.ts';
import { buildKubeadmConfig } from './kubeadm-config.ts';
import { Marks } from './marks.ts';
import { PATHS, type EtcdClientFiles, type KubernetesSettings } from './settings.ts';
import { startContainerRuntime } from './runtime.ts';
import { buildContainerdConfig, CONTAINERD_UNIT, KUBELET_UNIT } from './units.ts';

const never = new AbortController().signal;
const settings: KubernetesSettings = {
  version: 'v1.35.4',
  clusterName: 'blue',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: ['api.example.test', '192.0.2.7'],
  runsWorkloads: true,
  host: { restrictOomScoreAdj: true, failCgroupV1: false },
};
const etcd: EtcdClientFiles = {
  endpoint: 'https://127.0.0.1:2379',
  caFile: '/e/ca.crt',
  certFile: '/e/client.crt',
  keyFile: '/e/client.key',
};

type Document = Readonly<Record<string, unknown>> & { readonly kind: string };

function documents(changes: Partial<KubernetesSettings> = {}): ReadonlyMap<string, Document> {
  const texts = buildKubeadmConfig({ ...settings, ...changes }, etcd).split('\n---\n');
  return new Map(
    texts.map((text) => JSON.parse(text) as Document).map((document) => [document.kind, document]),
  );
}

describe('buildKubeadmConfig()', () => {
  test('asks for no bootstrap token', () => {
    expect(documents().get('InitConfiguration')?.['bootstrapTokens']).toEqual([]);
  });

  test('puts the node, loopback and every custom name into the certificate of the API server', () => {
    expect(documents().get('ClusterConfiguration')?.['apiServer']).toMatchObject({
      certSANs: ['127.0.0.1', 'localhost', 'n1', '198.18.0.11', 'api.example.test', '192.0.2.7'],
    });
  });

  test('points the cluster at the node-local balancer and the API server at its local etcd', () => {
    expect(documents().get('ClusterConfiguration')).toMatchObject({
      controlPlaneEndpoint: '127.0.0.1:6445',
      etcd: { external: { endpoints: ['https://127.0.0.1:2379'], caFile: '/e/ca.crt' } },
      networking: { podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20' },
    });
  });

  test('encrypts secrets at rest', () => {
    const { apiServer } = documents().get('ClusterConfiguration') as unknown as {
      apiServer: { extraArgs: unknown[] };
    };
    expect(apiServer.extraArgs).toContainEqual({
      name: 'encryption-provider-config',
      value: PATHS.encryption,
    });
  });

  test('keeps the kubelet from renewing by itself', () => {
    expect(documents().get('KubeletConfiguration')).toMatchObject({
      rotateCertificates: false,
      serverTLSBootstrap: false,
      failCgroupV1: false,
    });
  });

  test('taints the control plane only where ordinary workloads may not run', () => {
    const taints = (runsWorkloads: boolean): unknown =>
      (
        documents({ runsWorkloads }).get('InitConfiguration')?.['nodeRegistration'] as Record<string, unknown>
      )['taints'];
    expect(taints(true)).toEqual([]);
    expect(taints(false)).toEqual([{ key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }]);
  });
});

test('buildContainerdConfig() uses the bundle’s runc, pins the pause image and obeys the host', () => {
  const config = buildContainerdConfig({ pauseImage: 'registry.k8s.io/pause:3.10.1', host: settings.host });
  expect(config).toContain('sandbox = "registry.k8s.io/pause:3.10.1"');
  expect(config).toContain('BinaryName = "/opt/cluster/bin/runc"');
  expect(config).toContain('restrict_oom_score_adj = true');
});

const silent: PhaseProgress = { say: () => undefined, already: () => undefined };

function createControlPlane(answer: CommandAnswer = () => undefined, files = new MemoryFiles()) {
  const commands = new FakeCommands(answer);
  const units = new FakeUnits();
  const clock = new FakeClock();
  const probes: Error[] = [];
  const create = (changes: Partial<KubernetesSettings> = {}): ControlPlane =>
    new ControlPlane(
      {
        files,
        commands,
        units,
        clock,
        kubeadm: new Kubeadm({ commands, log: createMemoryLogger().log }),
        marks: new Marks(files),
        probe: () => {
          const failure = probes.shift();
          return failure === undefined ? Promise.resolve() : Promise.reject(failure);
        },
      },
      { ...settings, ...changes },
      etcd,
    );
  const phasesRun = (): string[] =>
    commands.runs
      .filter(([program]) => program?.endsWith('/kubeadm'))
      .map((argv) => argv.slice(3, argv.indexOf('--config')).join(' '));
  return { create, commands, units, clock, files, probes, phasesRun };
}

async function runAll(controlPlane: ControlPlane, progress = silent): Promise<void> {
  await controlPlane.makePki(progress, never);
  await controlPlane.start(progress, never);
  await controlPlane.storeSettings(progress, never);
  await controlPlane.waitRegistered(progress, never);
}

describe('ControlPlane', () => {
  test('runs kubeadm’s phases in order, never those that make tokens, and leaves no super-admin.conf', async () => {
    const bed = createControlPlane();
    await bed.files.makeDirectory('/etc/kubernetes');
    await bed.files.writeAtomic(PATHS.superAdminConf, 'x');
    await runAll(bed.create());
    expect(bed.phasesRun()).toEqual([
      'certs all',
      'kubeconfig all',
      'control-plane all',
      'kubelet-start',
      'upload-config all',
      'addon coredns',
      'addon kube-proxy',
      'mark-control-plane',
    ]);
    expect(await bed.files.stat(PATHS.superAdminConf)).toBeUndefined();
  });

  test('does nothing a second time, but starts the kubelet after a reboot', async () => {
    const bed = createControlPlane();
    await runAll(bed.create());
    const before = bed.phasesRun().length;
    bed.units.active.clear();
    let found = 0;
    await runAll(bed.create(), { say: () => undefined, already: () => void found++ });
    expect(bed.phasesRun()).toHaveLength(before);
    expect(found).toBe(3);
    expect(bed.units.active).toEqual(new Set([KUBELET_UNIT]));
  });

  test('goes on with the phase that failed', async () => {
    let broken = true;
    const bed = createControlPlane((argv) =>
      broken && argv.includes('addon') && argv.includes('coredns')
        ? { exitCode: 1, output: 'error: no route to host' }
        : undefined,
    );
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

  test('never replaces the key that secrets are encrypted with', async () => {
    const bed = createControlPlane();
    await bed.create().makePki(silent, never);
    const key = await bed.files.read(PATHS.encryption, 4096);
    await bed.create({ apiServerSans: ['other.example.test'] }).makePki(silent, never);
    expect(await bed.files.read(PATHS.encryption, 4096)).toEqual(key);
  });

  test('names what the API server said when it does not get ready', async () => {
    const bed = createControlPlane();
    await bed.files.makeDirectory('/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver');
    await bed.files.writeAtomic(
      '/var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log',
      'one\netcd: permission denied\n',
    );
    bed.probes.push(...Array.from({ length: 5000 }, () => new Error('connect ECONNREFUSED')));
    const started = bed
      .create()
      .start(silent, never)
      .catch((error: unknown) => error);
    await bed.clock.advance(300_000);
    expect(await started).toMatchObject({
      code: 'kubernetes-api-timeout',
      message: expect.stringContaining('etcd: permission denied'),
    });
  });

  test('does not wait for a kubelet that ends again and again', async () => {
    const bed = createControlPlane();
    bed.probes.push(...Array.from({ length: 5000 }, () => new Error('connect ECONNREFUSED')));
    bed.units.restarts.set(KUBELET_UNIT, 5);
    bed.units.logs.set(KUBELET_UNIT, ['failed to run Kubelet: running with swap on is not supported']);
    const started = bed
      .create()
      .start(silent, never)
      .catch((error: unknown) => error);
    await bed.clock.advance(10_000);
    expect(await started).toMatchObject({
      code: 'kubernetes-kubelet-failed',
      message: expect.stringContaining('swap'),
    });
  });
});

const component = (name: string, more: Partial<Component>): Component => ({
  name,
  version: 'v1',
  kind: 'binary',
  sha256: name,
  sizeBytes: 1,
  source: 'test',
  scope: 'node',
  ...more,
});

describe('components', () => {
  test('installBinaries() puts programs and CNI plugins where they belong and leaves the workstation’s out', async () => {
    const installed: string[] = [];
    const ports = {
      commands: new FakeCommands(),
      blob: () => Promise.reject(new Error('no image')),
      install: (_: Component, path: string) => (installed.push(path), Promise.resolve('installed' as const)),
    };
    const all = [
      component('kubelet', {}),
      component('bridge', {}),
      component('helm', { scope: 'workstation' }),
      component('pause', { kind: 'image' }),
    ];
    expect(await installBinaries(all, ports, () => undefined)).toBe(2);
    expect(installed).toEqual(['/opt/cluster/bin/kubelet', '/opt/cni/bin/bridge']);
    expect(installPath('flannel')).toBe('/opt/cni/bin/flannel');
  });

  test('importImages() imports what containerd lacks and pins it', async () => {
    const commands = new FakeCommands((argv) =>
      argv.includes('list')
        ? 'REF TYPE\nexample/have:1 x io.cri-containerd.pinned=pinned\nexample/unpinned:1 x -\n'
        : undefined,
    );
    const ports = {
      commands,
      blob: ({ sha256 }: Component) => Promise.resolve(`/store/${sha256}`),
      install: () => Promise.reject(new Error('no program')),
    };
    const image = (name: string): Component =>
      component(name, { kind: 'image', references: [`example/${name}:1`] });
    expect(
      await importImages([image('have'), image('unpinned'), image('lack')], ports, {
        onProgress: () => undefined,
        onEssential: () => undefined,
        signal: never,
      }),
    ).toBe(2);
    const imported = commands.runs.filter((argv) => argv.includes('import')).map((argv) => argv.at(-1));
    expect(imported.sort()).toEqual(['/store/lack', '/store/unpinned']);
    expect(commands.runs.filter((argv) => argv.includes('io.cri-containerd.pinned=pinned'))).toHaveLength(2);
  });

  test('importImages() imports what static pods need before the rest and says when it is there', async () => {
    const order: string[] = [];
    const commands = new FakeCommands((argv) =>
      argv.includes('import') ? (order.push(argv.at(-1) ?? ''), undefined) : undefined,
    );
    const ports = {
      commands,
      blob: ({ name }: Component) => Promise.resolve(name),
      install: () => Promise.reject(new Error('no program')),
    };
    const image = (name: string, scope: Component['scope']): Component =>
      component(name, { kind: 'image', scope, references: [`example/${name}:1`] });
    const images = [
      image('coredns', 'node'),
      image('kube-apiserver', 'controlplane'),
      image('pause', 'node'),
      image('web', 'node'),
    ];
    await importImages(images, ports, {
      onProgress: () => undefined,
      onEssential: () => void order.push('essential'),
      signal: never,
    });
    expect(order.slice(0, 2).sort()).toEqual(['kube-apiserver', 'pause']);
    expect(order.indexOf('essential')).toBeGreaterThan(1);
    expect(order).toHaveLength(5);
  });

  test('startContainerRuntime() restarts containerd only when its configuration changed', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc');
    const units = new FakeUnits();
    const start = (restrictOomScoreAdj: boolean): Promise<void> =>
      startContainerRuntime(
        { files, units },
        {
          components: [component('pause', { kind: 'image', references: ['pause:3'] })],
          host: { restrictOomScoreAdj, failCgroupV1: false },
          signal: never,
        },
      );
    await start(true);
    await start(true);
    await start(false);
    expect(units.moves).toEqual([`start ${CONTAINERD_UNIT}`, `restart ${CONTAINERD_UNIT}`]);
  });
});
