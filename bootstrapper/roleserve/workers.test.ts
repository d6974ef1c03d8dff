import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { encodeManifest, type Component } from '../../internal/bundle/index.ts';
import { createAuthorityPem, generateKeyPem, KeySigner, pubKeyOf } from '../../internal/pki/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settle,
  superviseForTest,
} from '../../internal/testing/index.ts';
import type { Membership } from '../enrolment/index.ts';
import {
  CLIENTS,
  CONTROL_PLANE_KEY_FILES,
  Kubeadm,
  KUBELET_FILES,
  Marks,
  type EtcdClientFiles,
  type HostSettings,
} from '../kubernetes/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import { componentsWorker, planComponents } from './components-worker.ts';
import {
  controlPlaneWorker,
  planControlPlane,
  type ControlPlaneDriver,
  type ControlPlaneStart,
} from './controlplane-worker.ts';
import { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
import {
  RoleValues,
  type BootstrapData,
  type ClusterSettings,
  type LocalComponents,
  type RoleSet,
} from './values.ts';

const host: HostSettings = { restrictOomScoreAdj: false, failCgroupV1: true };
const etcd: EtcdClientFiles = {
  endpoint: 'https://127.0.0.1:2379',
  caFile: 'ca',
  certFile: 'crt',
  keyFile: 'key',
};
const component = (name: string, more: Partial<Component>): Component => ({
  name,
  version: 'v1',
  kind: 'binary',
  sha256: 'ab'.repeat(32),
  sizeBytes: 1,
  source: 'test',
  scope: 'node',
  ...more,
});
const manifest = encodeManifest({
  version: 1,
  name: 'kubernetes-v1.35.4-linux-amd64',
  kubernetesVersion: 'v1.35.4',
  architecture: 'amd64',
  components: [
    component('etcd', { scope: 'controlplane' }),
    component('kubelet', {}),
    component('pause', { kind: 'image', references: ['registry.k8s.io/pause:3.10.1'] }),
  ],
});
const settings: ClusterSettings = {
  clusterName: 'blue',
  kubernetesVersion: 'v1.35.4',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: [],
  bundleManifest: Buffer.from(manifest).toString('utf8'),
};
const bootstrap: BootstrapData = {
  initId: 'i',
  spec: {
    ...settings,
    clusterId: 'a'.repeat(32),
    nodeName: 'n1',
    singleNode: true,
    kubernetesAdminCsrBase64: '',
    ownerCsrBase64: '',
    clusterUnlockKeyHex: '',
    configuration: '{}',
  },
};
const membership: Membership = {
  clusterId: 'a'.repeat(32),
  clusterName: 'blue',
  nodeId: 'node-1',
  nodeName: 'n1',
  nodeAddress: '198.18.0.11',
  nodeCertPem: '',
  clusterCaPem: '',
  epoch: 1,
  directory: [{ nodeId: 'node-1', host: '198.18.0.11' }],
};
const kubernetesCaKey = generateKeyPem();
const kubernetesCaPem = await createAuthorityPem({
  commonName: 'kubernetes',
  keyPem: kubernetesCaKey,
  nowMs: Date.now(),
});
const signer = new KeySigner({
  caPem: kubernetesCaPem,
  keyPem: kubernetesCaKey,
  nowMs: () => Date.now(),
});
const clientCertPem = await signer.issue({
  ...{ commonName: 'system:client', usages: ['client'], names: [], validDays: 9 },
  pubKeyDer: pubKeyOf(kubernetesCaKey),
});
const components: LocalComponents = { kubernetesVersion: 'v1.35.4', controlPlane: true, images: 'imported' };
const all: RoleSet = new Set(['ConsensusMember', 'KubernetesController', 'KubernetesWorker']);
const none: RoleSet = new Set();
const workerOnly: RoleSet = new Set(['KubernetesWorker']);

describe('planControlPlane()', () => {
  const unknown = { bootstrap: undefined, membership: undefined, roles: undefined, components: undefined };
  const cases = [
    {
      name: 'waits while nothing is known',
      given: unknown,
      want: { kind: 'wait', why: 'the roles of this node' },
    },
    {
      name: 'is idle without the role',
      given: { ...unknown, membership, components, roles: none },
      want: { kind: 'stop', why: 'idle: role absent' },
    },
    {
      name: 'waits for the programs',
      given: { ...unknown, roles: all, membership },
      want: { kind: 'wait', why: 'the components' },
    },
    {
      name: 'waits for the membership',
      given: { ...unknown, roles: all, components },
      want: { kind: 'wait', why: 'the membership of this node' },
    },
    {
      name: 'serves as a member',
      given: { ...unknown, roles: all, membership, components },
      want: { kind: 'start', config: { kind: 'serve', membership } },
    },
    {
      name: 'creates the cluster',
      given: { ...unknown, bootstrap, components },
      want: { kind: 'start', config: { kind: 'bootstrap', data: bootstrap } },
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(planControlPlane(given)).toEqual(want);
  });
});

describe('planKubernetes()', () => {
  const known = { bootstrap: undefined, membership, settings, roles: all, components };
  const plan = (changes: Partial<typeof known> | object) =>
    planKubernetes({ ...known, ...changes }, host, { nodeId: 'node-1', address: () => '198.18.0.99' });

  test.each([
    {
      name: 'the roles',
      changes: { roles: undefined },
      want: { kind: 'wait', why: 'the roles of this node' },
    },
    {
      name: 'the settings',
      changes: { settings: undefined },
      want: { kind: 'wait', why: 'the settings of the cluster' },
    },
    {
      name: 'the components',
      changes: { components: undefined },
      want: { kind: 'wait', why: 'the components' },
    },
    {
      name: 'nothing without the role',
      changes: { roles: none },
      want: { kind: 'stop', why: 'idle: role absent' },
    },
  ])('waits for $name', ({ changes, want }) => {
    expect(plan(changes)).toEqual(want);
  });

  test('takes networks and version from the cluster, name and address from the membership (row 36)', () => {
    expect(plan({})).toMatchObject({
      kind: 'start',
      config: {
        settings: {
          version: 'v1.35.4',
          podSubnet: '198.19.0.0/17',
          nodeName: 'n1',
          nodeAddress: '198.18.0.11',
          runsWorkloads: true,
        },
      },
    });
  });

  test('begins with the specification while the cluster is being created', () => {
    expect(plan({ membership: undefined, roles: undefined, bootstrap })).toMatchObject({
      kind: 'start',
      config: { settings: { nodeName: 'n1', nodeAddress: '198.18.0.99' } },
    });
  });
});

describe('planComponents()', () => {
  const unknown = { bootstrap: undefined, settings: undefined, roles: undefined };
  const waits = [
    { name: 'the settings', given: { ...unknown, roles: all }, why: 'the settings of the cluster' },
    { name: 'the roles', given: { ...unknown, settings }, why: 'the roles of this node' },
  ];
  test.each(waits)('waits for $name', ({ given, why }) => {
    expect(planComponents(given)).toEqual({ kind: 'wait', why });
  });

  test.each([
    { name: 'a cluster that is being made', given: { ...unknown, settings, bootstrap }, controlPlane: true },
    { name: 'a control plane', given: { ...unknown, settings, roles: all }, controlPlane: true },
    { name: 'a worker', given: { ...unknown, settings, roles: workerOnly }, controlPlane: false },
  ])('takes what $name needs', ({ given, controlPlane }) => {
    const config = { kubernetesVersion: 'v1.35.4', controlPlane };
    expect(planComponents(given)).toMatchObject({ kind: 'start', config });
  });
});

/** Phases that only note their names. */
class NotedPhases implements PhaseReporter {
  readonly names: string[] = [];

  run<T>(phase: string, work: Parameters<PhaseReporter['run']>[1]): Promise<T> {
    this.names.push(phase);
    return work({ say: () => undefined, already: () => undefined }) as Promise<T>;
  }
}

class FakeDriver implements ControlPlaneDriver {
  readonly starts: ControlPlaneStart['kind'][] = [];
  failures = 0;
  stops = 0;
  mayStop = true;

  startConsensus(start: ControlPlaneStart): Promise<void> {
    this.starts.push(start.kind);
    return this.failures-- > 0 ? Promise.reject(new Error('etcd does not serve')) : Promise.resolve();
  }

  createCluster(): Promise<{ membership: Membership; roles: RoleSet }> {
    return Promise.resolve({ membership, roles: all });
  }

  startCurator(): Promise<{ apiServerEtcd: EtcdClientFiles; curatorEndpoint: string }> {
    return Promise.resolve({ apiServerEtcd: etcd, curatorEndpoint: '198.18.0.11:9091' });
  }

  repairMembers(signal: AbortSignal): Promise<void> {
    return untilAborted(signal);
  }

  checkStop(): Promise<void> {
    return this.mayStop ? Promise.resolve() : Promise.reject(new Error('the last member'));
  }

  stop(): Promise<void> {
    this.stops++;
    return Promise.resolve();
  }
}

function createControlPlane() {
  const values = new RoleValues();
  const phases = new NotedPhases();
  const driver = new FakeDriver();
  const worker = controlPlaneWorker({
    reads: values,
    writes: {
      bootstrapSpent: () => values.bootstrapData.set(undefined),
      clusterMembership: values.clusterMembership,
      localRoles: values.localRoles,
      localControlPlane: values.localControlPlane,
    },
    phases,
    driver,
  });
  return { values, phases, driver, worker };
}

const now = <T>(value: { peek(): { set: false } | { set: true; value: T } }): T | undefined => {
  const peeked = value.peek();
  return peeked.set ? peeked.value : undefined;
};

describe('the controlplane worker', () => {
  test('creates the cluster, publishes membership and roles, and spends the bootstrap data without starting again', async () => {
    const { values, phases, driver, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.bootstrapData.set(bootstrap);
    values.localComponents.set(components);
    await settle();
    expect(phases.names).toEqual(['consensus', 'membership', 'curator']);
    expect([now(values.clusterMembership), now(values.localRoles), now(values.bootstrapData)]).toEqual([
      membership,
      all,
      undefined,
    ]);
    expect(now(values.localControlPlane)?.curatorEndpoint).toBe('198.18.0.11:9091');
    expect(driver.starts).toEqual(['bootstrap']);
  });

  test('a later start shows the same phases but the one that makes the cluster (row 28)', async () => {
    const { values, phases, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    expect(phases.names).toEqual(['consensus', 'curator']);
  });

  test('restarts nothing when membership or components change, and stops when the role goes (rows 20, 30, 31)', async () => {
    const { values, driver, worker } = createControlPlane();
    await using _tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    values.clusterMembership.set({ ...membership, nodeCertPem: 'renewed' });
    values.localRoles.set(new Set(['ConsensusMember']));
    await settle();
    expect(driver.starts).toEqual(['serve']);
    values.localRoles.set(none);
    await settle();
    expect([driver.stops, now(values.localControlPlane)]).toEqual([1, undefined]);
    values.localRoles.set(all);
    await settle();
    expect(driver.starts).toEqual(['serve', 'serve']);
  });

  test('goes on serving while the cluster could not do without it, and leaves when it can', async () => {
    const { values, driver, worker } = createControlPlane();
    await using tree = superviseForTest(worker);
    values.clusterMembership.set(membership);
    values.localRoles.set(all);
    values.localComponents.set(components);
    await settle();
    driver.mayStop = false;
    values.localRoles.set(workerOnly);
    await settle();
    await tree.clock.advance(2_000);
    expect([driver.stops, now(values.localControlPlane)?.curatorEndpoint]).toEqual([0, '198.18.0.11:9091']);
    driver.mayStop = true;
    await tree.clock.advance(5_000);
    expect([driver.stops, now(values.localControlPlane)]).toEqual([1, undefined]);
  });

  test('tries again after a failure, with the data it was given', async () => {
    const { values, driver, worker } = createControlPlane();
    driver.failures = 2;
    await using tree = superviseForTest(worker);
    values.bootstrapData.set(bootstrap);
    values.localComponents.set(components);
    await settle();
    await tree.clock.advance(5000);
    expect(driver.starts).toEqual(['bootstrap', 'bootstrap', 'bootstrap']);
    expect(now(values.clusterMembership)).toEqual(membership);
  });
});

test('the components worker installs, starts containerd, imports, and says each when it is true', async () => {
  const values = new RoleValues();
  const phases = new NotedPhases();
  const units = new FakeUnits();
  const files = new MemoryFiles();
  await files.makeDirectory('/etc');
  const seen: (LocalComponents | undefined)[] = [];
  const brought: string[] = [];
  const worker = componentsWorker({
    reads: values,
    writes: { localComponents: { set: (value) => (seen.push(value), values.localComponents.set(value)) } },
    phases,
    host,
    ports: {
      files,
      units,
      commands: new FakeCommands(),
      install: () => Promise.resolve('installed'),
      blob: () => Promise.resolve('/store/pause'),
      bring: ({ name }) => (brought.push(name), Promise.resolve(true)),
    },
  });
  await using _tree = superviseForTest(worker);
  values.clusterSettings.set(settings);
  values.localRoles.set(workerOnly);
  await settle();
  expect(phases.names).toEqual(['components', 'images']);
  expect(brought).toEqual(['kubelet']);
  expect(seen.map((value) => value?.images)).toEqual(['importing', 'essential', 'imported']);
  expect(seen.at(-1)?.controlPlane).toBe(false);
  expect(units.moves).toEqual(['start cluster-containerd.service']);
  // A promotion brings the rest; what runs stays.
  values.localRoles.set(all);
  await settle();
  expect(phases.names).toEqual(['components', 'images', 'components', 'images']);
  expect(brought.slice(1).toSorted()).toEqual(['etcd', 'kubelet', 'pause']);
  expect(seen.at(-1)).toEqual({ ...components, controlPlane: true });
  expect(units.moves).toEqual(['start cluster-containerd.service']);
});

/** What a ticket brings to a control plane. */
async function placeKeys(files: MemoryFiles): Promise<void> {
  for (const path of [...Object.values(KUBELET_FILES), ...Object.values(CONTROL_PLANE_KEY_FILES)]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, path);
  }
  // Made before: what has to be signed would not be there after `settle`.
  for (const { folder, key, cert } of Object.values(CLIENTS)) {
    await files.makeDirectory(folder);
    await files.writeAtomic(key, kubernetesCaKey.reveal());
    await files.writeAtomic(cert, clientCertPem);
  }
  await files.writeAtomic(CONTROL_PLANE_KEY_FILES['kubernetes-ca.crt'], kubernetesCaPem);
  await files.writeAtomic(CONTROL_PLANE_KEY_FILES['kubernetes-ca.key'], kubernetesCaKey.reveal());
}

async function createKubernetes() {
  const values = new RoleValues();
  const phases = new NotedPhases();
  const files = new MemoryFiles();
  await placeKeys(files);
  const commands = new FakeCommands();
  const units = new FakeUnits();
  units.active.add('kubelet.service');
  const worker = kubernetesWorker({
    reads: values,
    writes: values,
    phases,
    host,
    nodeId: 'node-1',
    ownAddress: () => '198.18.0.11',
    madeTheCluster: () => false,
    apiServerEtcd: etcd,
    ports: {
      files,
      commands,
      units,
      clock: new FakeClock(),
      kubeadm: new Kubeadm({ commands, log: createMemoryLogger().log }),
      marks: new Marks(files),
      log: createMemoryLogger().log,
      probe: () => Promise.resolve(),
      isListening: () => Promise.resolve(false),
    },
  });
  values.clusterSettings.set(settings);
  return { values, phases, files, units, worker };
}

test('the kubernetes worker makes certificates at once, waits for images and consensus, then serves (row 34)', async () => {
  const { values, phases, units, worker } = await createKubernetes();
  await using tree = superviseForTest(worker);
  values.bootstrapData.set(bootstrap);
  values.localComponents.set({ ...components, images: 'importing' });
  await settle();
  expect(phases.names).toEqual(['pki']);
  values.localComponents.set({ ...components, images: 'essential' });
  await settle();
  expect(tree.at('root').note).toBe('consensus');
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settle();
  expect(phases.names).toEqual(['pki', 'control-plane']);
  values.localComponents.set(components);
  await settle();
  expect(phases.names).toEqual(['pki', 'control-plane', 'settings', 'node']);
  expect(now(values.kubernetesStatus)).toEqual({ version: 'v1.35.4', controlPlane: true });
  values.bootstrapData.set(undefined);
  values.localRoles.set(none);
  await settle();
  expect(now(values.kubernetesStatus)).toBeUndefined();
  expect([units.active.has('kubelet.service'), tree.at('root').note]).toEqual([false, 'idle: role absent']);
});

test('a worker runs its kubelet with the same phase names, becomes a control plane and a worker again, and the kubelet stays (rows 16, 18, 28, 35)', async () => {
  const { values, phases, files, units, worker } = await createKubernetes();
  await using _tree = superviseForTest(worker);
  values.clusterMembership.set(membership);
  values.localRoles.set(workerOnly);
  values.localComponents.set({ ...components, controlPlane: false });
  await settle();
  expect(phases.names).toEqual(['pki', 'node']);
  expect(now(values.kubernetesStatus)).toEqual({ version: 'v1.35.4', controlPlane: false });
  await placeKeys(files); // the renewal worker's part of a promotion
  values.localRoles.set(all);
  await settle();
  expect(phases.names).toEqual(['pki', 'node']); // the parts of a control plane are still to come
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settle();
  expect(phases.names).toEqual(['pki', 'node', 'pki', 'control-plane', 'settings']);
  expect(now(values.kubernetesStatus)?.controlPlane).toBe(true);
  values.localRoles.set(workerOnly);
  await settle();
  expect(now(values.kubernetesStatus)?.controlPlane).toBe(false);
  expect(await files.list('/etc/kubernetes/pki')).toEqual([]);
  expect(units.moves.filter((move) => move.includes('kubelet.service') && !move.startsWith('start'))).toEqual(
    [],
  );
});
