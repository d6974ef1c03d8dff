import { describe, expect, test } from '@jest/globals';
import type { Component } from '../../internal/bundle/index.ts';
import {
  DEFAULT_CERTIFICATES,
  DEFAULT_HARDENING,
  extraArgumentsSchema,
} from '../../internal/config/index.ts';
import { FakeCommands, FakeUnits, MemoryFiles, settle } from '../../internal/testing/index.ts';
import { importImages, installBinaries, installPath, isForRole } from './node/components.ts';
import { buildKubeadmConfig } from './kubeadm/kubeadm-config.ts';
import { kubeletConfiguration } from './kubelet/kubelet-config.ts';
import { PATHS, type EtcdClientFiles, type KubernetesSettings } from './settings.ts';
import { apiServerNames } from './credentials/api-server-credentials.ts';
import { NEVER_ROTATED } from './credentials/shared-keys.ts';
import { startContainerRuntime } from './node/container-runtime.ts';
import { buildContainerdConfig, CONTAINERD_UNIT } from './node/units.ts';

const never = new AbortController().signal;
const settings: KubernetesSettings = {
  version: 'v1.35.4',
  clusterName: 'blue',
  nodeId: 'node-1',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: ['api.example.test', '192.0.2.7'],
  runsWorkloads: true,
  taints: [],
  apiEndpoint: undefined,
  certificates: DEFAULT_CERTIFICATES,
  podSecurity: { enforce: 'baseline', exemptNamespaces: [], allowCloudMetadata: false },
  hardening: DEFAULT_HARDENING,
  extraArguments: undefined,
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
  test('creates no bootstrap token', () => {
    expect(documents().get('InitConfiguration')?.['bootstrapTokens']).toEqual([]);
  });

  test('includes node, loopback and custom names in the certificate of the API server', () => {
    expect(documents().get('ClusterConfiguration')?.['apiServer']).toMatchObject({
      certSANs: ['127.0.0.1', 'localhost', 'n1', '198.18.0.11', 'api.example.test', '192.0.2.7'],
    });
  });

  test('uses the load balancer of the operator and adds its name to the certificate', () => {
    const own = documents({ apiEndpoint: '[2001:db8::6]:443' }).get('ClusterConfiguration');
    expect(own).toMatchObject({ controlPlaneEndpoint: '[2001:db8::6]:443' });
    expect((own?.['apiServer'] as { certSANs: string[] }).certSANs).toContain('2001:db8::6');
  });

  test('sets certificate lifetimes, and mounts the credential directories of controller manager and scheduler', () => {
    const certificates = { nodeMinutes: 2, kubeletMinutes: 3, controlPlaneMinutes: 6 };
    expect(documents({ certificates }).get('ClusterConfiguration')).toMatchObject({
      certificateValidityPeriod: '6m',
      controllerManager: { extraVolumes: [{ mountPath: '/etc/kubernetes/controller-manager' }] },
      scheduler: { extraVolumes: [{ mountPath: '/etc/kubernetes/scheduler' }] },
    });
  });

  test('uses the node-local balancer, the local etcd and the networks of the cluster', () => {
    expect(documents().get('ClusterConfiguration')).toMatchObject({
      controlPlaneEndpoint: '127.0.0.1:6445',
      etcd: { external: { endpoints: ['https://127.0.0.1:2379'], caFile: '/e/ca.crt' } },
      networking: { podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20' },
    });
  });

  test('has both networks, both addresses of the node, and all of them in the certificate', () => {
    const both = { podSubnet: '10.244.0.0/16,fd00:1::/56', serviceSubnet: '10.96.0.0/12,fd00:2::/108' };
    const node = { nodeAddress: '192.0.2.1', secondaryAddress: '2001:db8::1' };
    const found = documents({ ...both, ...node });
    expect(found.get('ClusterConfiguration')).toMatchObject({
      networking: both,
      apiServer: { certSANs: expect.arrayContaining(['192.0.2.1', '2001:db8::1']) as unknown },
    });
    expect(found.get('InitConfiguration')).toMatchObject({
      localAPIEndpoint: { advertiseAddress: '192.0.2.1' },
      nodeRegistration: { kubeletExtraArgs: [{ name: 'node-ip', value: '192.0.2.1,2001:db8::1' }] },
    });
    const names = apiServerNames({ ...settings, ...both, ...node });
    for (const value of ['10.96.0.1', 'fd00:2::1', '192.0.2.1', '2001:db8::1'])
      expect(names).toContainEqual({ type: 'ip', value });
  });

  test('encrypts Secrets at rest', () => {
    const { apiServer } = documents().get('ClusterConfiguration') as unknown as {
      apiServer: { extraArgs: unknown[] };
    };
    expect(apiServer.extraArgs).toContainEqual({
      name: 'encryption-provider-config',
      value: PATHS.encryption,
    });
  });

  test('mounts the audit policy for reading and the audit log for writing into the API server', () => {
    expect(documents().get('ClusterConfiguration')).toMatchObject({
      apiServer: {
        extraArgs: expect.arrayContaining([{ name: 'audit-log-path', value: PATHS.auditLog }]) as unknown,
        extraVolumes: expect.arrayContaining([
          expect.objectContaining({ hostPath: '/etc/kubernetes/audit', readOnly: true }),
          expect.objectContaining({ hostPath: '/var/log/kubernetes', readOnly: false }),
        ]) as unknown,
      },
    });
  });

  const argumentsOf = (pod: string, changes: Partial<KubernetesSettings> = {}): Record<string, string> => {
    const cluster = documents(changes).get('ClusterConfiguration') as unknown as Record<
      string,
      { readonly extraArgs: readonly { readonly name: string; readonly value: string }[] }
    >;
    return Object.fromEntries(cluster[pod]?.extraArgs.map(({ name, value }) => [name, value]) ?? []);
  };

  test.each(['apiServer', 'controllerManager', 'scheduler'])(
    '%s offers no profiles and accepts TLS 1.2 with strong ciphers',
    (pod) => {
      expect(argumentsOf(pod)).toMatchObject({
        profiling: 'false',
        'tls-min-version': 'VersionTLS12',
        'tls-cipher-suites': expect.stringMatching(/^(?:TLS_ECDHE_\w+,?)+$/) as unknown,
      });
      const strongCiphers = argumentsOf(pod, { hardening: { ...DEFAULT_HARDENING, strongCiphers: false } });
      expect(strongCiphers).not.toHaveProperty('tls-cipher-suites');
    },
  );

  test.each([
    { name: 'a new cluster', hardening: DEFAULT_HARDENING, want: 'false' },
    { name: 'a cluster of an earlier release', hardening: undefined, want: undefined },
  ])('sets service-account-extend-token-expiration to $want in $name', ({ hardening, want }) => {
    expect(argumentsOf('apiServer', { hardening })['service-account-extend-token-expiration']).toBe(want);
  });

  test.each(['apiServer', 'controllerManager', 'scheduler'] as const)(
    '%s gets the extra arguments of the configuration, which can contain no argument that the agent sets',
    (pod) => {
      const allowed = Object.keys(extraArgumentsSchema.shape[pod].unwrap().shape);
      const own = argumentsOf(pod, { hardening: DEFAULT_HARDENING });
      expect(Object.keys(own).filter((name) => allowed.includes(name))).toEqual([]);
      expect(argumentsOf(pod, { extraArguments: { [pod]: { v: 2 } } })).toEqual({ ...own, v: '2' });
    },
  );

  test('contains the same kubelet configuration as the agent writes on nodes', () => {
    expect(documents().get('KubeletConfiguration')).toEqual(kubeletConfiguration(settings, NEVER_ROTATED));
  });

  test('sets no taint on the node', () => {
    expect(documents().get('InitConfiguration')?.['nodeRegistration']).toMatchObject({ taints: [] });
  });
});

test('buildContainerdConfig() uses the runc of the bundle, pins the pause image and applies the host settings', () => {
  const config = buildContainerdConfig({ pauseImage: 'registry.k8s.io/pause:3.10.1', host: settings.host });
  expect(config).toContain('sandbox = "registry.k8s.io/pause:3.10.1"');
  expect(config).toContain('BinaryName = "/opt/cluster/bin/runc"');
  expect(config).toContain('restrict_oom_score_adj = true');
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
  test('installBinaries() installs programs and CNI plugins, but no workstation tools', async () => {
    const installed: string[] = [];
    const ports = {
      commands: new FakeCommands(),
      blobPath: () => Promise.reject(new Error('no image')),
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

  test('isForRole() excludes components and tools of control planes on workers', () => {
    const names = ['kubelet', 'kubectl', 'kubeadm'].map((name) => component(name, {}));
    const all = [
      ...names,
      component('etcd', { scope: 'controlplane' }),
      component('helm', { scope: 'workstation' }),
    ];
    const given = (controlPlane: boolean): string[] =>
      all.filter((each) => isForRole(each, { controlPlane })).map(({ name }) => name);
    expect(given(false)).toEqual(['kubelet']);
    expect(given(true)).toEqual(['kubelet', 'kubectl', 'kubeadm', 'etcd']);
  });

  test('importImages() imports and pins the images that containerd lacks', async () => {
    const commands = new FakeCommands((argv) =>
      argv.includes('list')
        ? 'REF TYPE\nexample/have:1 x io.cri-containerd.pinned=pinned\nexample/unpinned:1 x -\n'
        : undefined,
    );
    const ports = {
      commands,
      blobPath: ({ sha256 }: Component) => Promise.resolve(`/store/${sha256}`),
      install: () => Promise.reject(new Error('no program')),
    };
    const image = (name: string): Component =>
      component(name, { kind: 'image', references: [`example/${name}:1`] });
    expect(
      await importImages([image('have'), image('unpinned'), image('lack')], ports, {
        onProgress: () => undefined,
        controlPlane: true,
        onEssential: () => undefined,
        hasRun: true,
        mayFollow: () => Promise.resolve(),
        signal: never,
      }),
    ).toBe(2);
    const imported = commands.runs.filter((argv) => argv.includes('import')).map((argv) => argv.at(-1));
    expect(imported.sort()).toEqual(['/store/lack', '/store/unpinned']);
    expect(commands.runs.filter((argv) => argv.includes('io.cri-containerd.pinned=pinned'))).toHaveLength(2);
  });

  test.each([
    {
      name: 'the images of static pods on a control plane',
      controlPlane: true,
      first: ['kube-apiserver', 'pause'],
    },
    {
      name: 'the images of the pods that run on every worker',
      controlPlane: false,
      first: ['flannel-image', 'kube-proxy', 'pause'],
    },
  ])('importImages() imports $name first, and then calls onEssential', async (given) => {
    const order: string[] = [];
    const commands = new FakeCommands((argv) => {
      const name = argv.at(-1) ?? '';
      if (argv.includes('import')) order.push(name);
      return undefined;
    });
    const ports = {
      commands,
      blobPath: ({ name }: Component) => Promise.resolve(name),
      install: () => Promise.reject(new Error('no program')),
    };
    const image = (name: string, scope: Component['scope'] = 'node'): Component =>
      component(name, { kind: 'image', scope, references: [`example/${name}:1`] });
    const images = ['coredns', 'flannel-image', 'kube-proxy', 'pause', 'web'].map((name) => image(name));
    const { controlPlane, first } = given;
    if (controlPlane) images.push(image('kube-apiserver', 'controlplane'));
    const untilEssential = Promise.withResolvers<void>();
    const importing = importImages(images, ports, {
      onProgress: () => undefined,
      controlPlane,
      hasRun: false,
      onEssential: () => void order.push('essential'),
      mayFollow: () => untilEssential.promise,
      signal: never,
    });
    await settle();
    expect(order.toSorted()).toEqual([...first, 'essential'].toSorted());
    expect(order.at(-1)).toBe('essential');
    untilEssential.resolve();
    await importing;
    expect(order).toHaveLength(images.length + 1);
    expect(commands.runs.filter((argv) => argv.includes('list'))).toEqual([]);
    // A kubelet gives containerd two minutes for a container, which is not enough to unpack an image on a slow machine.
    expect(commands.runs.filter((argv) => argv.some((word) => word.includes('unpack')))).toEqual([]);
  });

  test('startContainerRuntime() restarts containerd only if its configuration has changed', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc');
    const units = new FakeUnits();
    const start = (restrictOomScoreAdj: boolean): Promise<{ readonly hasRun: boolean }> =>
      startContainerRuntime(
        { files, units },
        [component('pause', { kind: 'image', references: ['pause:3'] })],
        { restrictOomScoreAdj, failCgroupV1: false },
        never,
      );
    expect(await start(true)).toEqual({ hasRun: false });
    await files.makeDirectory('/var/lib/containerd/io.containerd.metadata.v1.bolt');
    await files.writeAtomic('/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db', '');
    expect(await start(true)).toEqual({ hasRun: true });
    await start(false);
    expect(units.moves).toEqual([`start ${CONTAINERD_UNIT}`, `restart ${CONTAINERD_UNIT}`]);
  });
});
