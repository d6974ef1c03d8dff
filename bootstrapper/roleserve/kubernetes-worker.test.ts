import { describe, expect, test } from '@jest/globals';
import { currentValue } from '../../internal/event/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  type CommandAnswer,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settle,
  settleUntil,
  superviseForTest,
} from '../../internal/testing/index.ts';
import { CONTROL_PLANE_KEY_FILES, Kubeadm, KUBELET_FILES, StepCheckpoints } from '../kubernetes/index.ts';
import {
  all,
  bootstrap,
  components,
  etcd,
  host,
  membership,
  none,
  NotedPhases,
  settings,
  workerOnly,
} from './fake-node.ts';
import { kubernetesWorker, planKubernetes } from './kubernetes-worker.ts';
import type { RoleSet } from './role-values.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

describe('planKubernetes()', () => {
  const known = {
    bootstrapData: undefined,
    clusterMembership: membership,
    clusterSettings: settings,
    localRoles: all,
    localComponents: components,
  };
  const plan = (changes: Partial<typeof known> | object) =>
    planKubernetes({ ...known, ...changes }, host, {
      ...{ nodeId: 'node-1', address: () => '198.18.0.99', secondaryAddress: () => '2001:2::99' },
    });

  test('has the second address of the node only in a cluster with two families', () => {
    const both = { ...settings, serviceSubnet: '10.96.0.0/12,fd00:2::/108' };
    expect(plan({ clusterSettings: both })).toMatchObject({
      config: { settings: { nodeAddress: membership.nodeAddress, secondaryAddress: '2001:2::99' } },
    });
    const single = plan({});
    expect(single.kind === 'start' && single.config.settings).not.toHaveProperty('secondaryAddress');
  });

  test.each([
    {
      name: 'waits for the roles',
      changes: { localRoles: undefined },
      want: { kind: 'wait', why: 'the roles of this node' },
    },
    {
      name: 'waits for the settings',
      changes: { clusterSettings: undefined },
      want: { kind: 'wait', why: 'the settings of the cluster' },
    },
    {
      name: 'waits for the components',
      changes: { localComponents: undefined },
      want: { kind: 'wait', why: 'the components' },
    },
    {
      name: 'does nothing without the role',
      changes: { localRoles: none },
      want: { kind: 'stop', why: 'idle: role absent' },
    },
  ])('$name', ({ changes, want }) => {
    expect(plan(changes)).toEqual(want);
  });

  test('uses networks and version of the cluster, and name and address of the membership', () => {
    expect(plan({})).toMatchObject({
      kind: 'start',
      config: {
        settings: {
          version: 'v1.35.4',
          podSubnet: '198.19.0.0/17',
          serviceSubnet: '198.19.128.0/20',
          nodeName: 'n1',
          nodeAddress: '198.18.0.11',
          runsWorkloads: true,
        },
      },
    });
  });

  test('starts with the specification of the init while the cluster is being created', () => {
    expect(
      plan({ clusterMembership: undefined, localRoles: undefined, bootstrapData: bootstrap }),
    ).toMatchObject({
      kind: 'start',
      config: { settings: { nodeName: 'n1', nodeAddress: '198.18.0.99' } },
    });
  });
});

const kubernetesCaKey = generateKeyPem();
const kubernetesCaPem = await createCaCertPem({
  commonName: 'kubernetes',
  keyPem: kubernetesCaKey,
  nowMs: Date.now(),
});

/** Writes the shared keys that a ticket brings to a control plane. */
async function placeKeys(files: MemoryFiles): Promise<void> {
  for (const path of [...Object.values(KUBELET_FILES), ...Object.values(CONTROL_PLANE_KEY_FILES)]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, path);
  }
  for (const name of ['kubernetes-ca', 'front-proxy-ca'] as const) {
    await files.writeAtomic(CONTROL_PLANE_KEY_FILES[`${name}.crt`], kubernetesCaPem);
    await files.writeAtomic(CONTROL_PLANE_KEY_FILES[`${name}.key`], kubernetesCaKey.reveal());
  }
}

/** Writes the static pods that kubeadm would write. */
async function placePods(files: MemoryFiles): Promise<void> {
  await files.makeDirectory('/etc/kubernetes/manifests');
  for (const pod of ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'])
    await files.writeAtomic(`/etc/kubernetes/manifests/${pod}.yaml`, pod);
}

async function createKubernetes(
  answer: CommandAnswer = () => undefined,
  isListening: (machine: {
    readonly files: MemoryFiles;
    readonly units: FakeUnits;
  }) => Promise<boolean> = () => Promise.resolve(false),
) {
  const values = createFakeRoleValues();
  const phases = new NotedPhases();
  const files = new MemoryFiles();
  await placeKeys(files);
  await placePods(files);
  const commands = new FakeCommands(answer);
  const clock = new FakeClock();
  const units = new FakeUnits();
  const worker = kubernetesWorker({
    reads: values,
    writes: values,
    phases,
    host,
    nodeId: 'node-1',
    ownAddress: () => '198.18.0.11',
    secondaryAddress: () => undefined,
    isCreatingCluster: () => false,
    isRestoringCluster: () => false,
    isKeyChangePending: () => Promise.resolve(false),
    apiServerEtcd: etcd,
    ports: {
      files,
      commands,
      units,
      clock,
      kubeadm: new Kubeadm({ commands, log: createMemoryLogger().log }),
      checkpoints: new StepCheckpoints(files),
      log: createMemoryLogger().log,
      probeNode: () => Promise.resolve(),
      probe: () => Promise.resolve(),
      isListening: () => isListening({ files, units }),
    },
  });
  values.clusterSettings.set(settings);
  return { values, phases, files, commands, units, clock, worker };
}

test('the kubernetes worker creates certificates at once, waits for images and consensus, then serves until its roles are removed', async () => {
  const { values, phases, units, worker } = await createKubernetes();
  await using tree = superviseForTest(worker);
  values.bootstrapData.set(bootstrap);
  values.localComponents.set({ ...components, images: 'importing' });
  await settle();
  expect(phases.names).toEqual(['pki']);
  values.localComponents.set({ ...components, images: 'essential' });
  await settleUntil(() => tree.at('root').note === 'consensus');
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settle();
  expect(phases.names).toEqual(['pki', 'control-plane']);
  values.localComponents.set(components);
  await settle();
  expect(phases.names).toEqual(['pki', 'control-plane', 'settings', 'node']);
  expect(currentValue(values.kubernetesStatus)).toEqual({ version: 'v1.35.4', controlPlane: true });
  values.bootstrapData.set(undefined);
  values.localRoles.set(none);
  await settle();
  expect(currentValue(values.kubernetesStatus)).toBeUndefined();
  expect([units.active.has('kubelet.service'), tree.at('root').note]).toEqual([false, 'idle: role absent']);
});

test('a worker node runs its kubelet in the same phases, and the kubelet keeps running through a promotion and a demotion', async () => {
  const { values, phases, files, units, clock, worker } = await createKubernetes();
  await using _tree = superviseForTest(worker);
  values.clusterMembership.set(membership);
  values.localRoles.set(workerOnly);
  values.localComponents.set({ ...components, controlPlane: false });
  await settle();
  expect(phases.names).toEqual(['pki', 'node']);
  expect(currentValue(values.kubernetesStatus)).toEqual({ version: 'v1.35.4', controlPlane: false });
  await placeKeys(files); // the renewal worker writes these keys during a promotion
  await placePods(files);
  values.localRoles.set(all);
  await settle();
  expect(phases.names).toEqual(['pki', 'node']); // the components of a control plane are installed later
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settleUntil(() => currentValue(values.kubernetesStatus)?.controlPlane === true);
  expect(phases.names).toEqual(['pki', 'node', 'pki', 'control-plane', 'settings']);
  values.localRoles.set(workerOnly);
  await settle();
  await clock.advance(2_000); // time for requests of other nodes that are still on their way
  expect(currentValue(values.kubernetesStatus)?.controlPlane).toBe(false);
  expect(await files.list('/etc/kubernetes/pki')).toEqual([]);
  expect(units.moves.filter((move) => move.includes('kubelet.service') && !move.startsWith('start'))).toEqual(
    [],
  );
});

test('a control plane that loses all roles at once stops its static pods through the kubelet, and then the kubelet', async () => {
  let arePodsRunning = true;
  const kubernetes = await createKubernetes(
    () => undefined,
    async ({ files, units }) => {
      const isWanted = (await files.stat('/etc/kubernetes/manifests/kube-apiserver.yaml')) !== undefined;
      if (!isWanted && units.active.has('kubelet.service')) arePodsRunning = false;
      return arePodsRunning;
    },
  );
  const { values, files, units, clock, worker } = kubernetes;
  await using tree = superviseForTest(worker);
  values.clusterMembership.set(membership);
  values.localRoles.set(all);
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settleUntil(() => currentValue(values.kubernetesStatus)?.controlPlane === true);
  values.localRoles.set(none);
  await settle();
  await clock.advance(2_000); // time for requests of other nodes that are still on their way
  await settleUntil(() => tree.at('root').note === 'idle: role absent');
  expect(arePodsRunning).toBe(false);
  expect(await files.list('/etc/kubernetes/pki')).toEqual([]);
  expect(units.active.has('kubelet.service')).toBe(false);
});

test('a control plane accepts ordinary pods while it is also a worker, and changes of that role restart nothing', async () => {
  const { values, phases, commands, units, worker } = await createKubernetes();
  await using tree = superviseForTest(worker);
  const controlOnly: RoleSet = new Set(['ConsensusMember', 'KubernetesController']);
  values.clusterMembership.set(membership);
  values.localRoles.set(controlOnly);
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settleUntil(() => currentValue(values.kubernetesStatus)?.controlPlane === true);
  await settle();
  const before = { phases: [...phases.names], moves: [...units.moves], life: tree.at('root').sinceMs };
  for (const roles of [all, controlOnly, all]) {
    values.localRoles.set(roles);
    values.localRoles.set(new Set(roles)); // an update without a change, for example after a changed label
    values.clusterMembership.set({
      ...membership,
      nodeAddress: `198.18.0.${roles.size}`,
      nodeCertPem: 'new',
    });
    await settle();
  }
  expect(taintsOf(commands)).toEqual([TAINT, `${TAINT}-`, TAINT, `${TAINT}-`]);
  expect({ phases: phases.names, moves: units.moves, life: tree.at('root').sinceMs }).toEqual(before);
});

test('a control plane that becomes a worker again removes the taint, even if an earlier attempt to set it failed', async () => {
  let isDown = false;
  const kubernetes = await createKubernetes(() =>
    isDown ? { exitCode: 1, output: 'The connection to the server was refused' } : undefined,
  );
  const { values, commands, worker } = kubernetes;
  await using tree = superviseForTest(worker);
  const controlOnly: RoleSet = new Set(['ConsensusMember', 'KubernetesController']);
  values.clusterMembership.set(membership);
  values.localRoles.set(all);
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await settleUntil(() => currentValue(values.kubernetesStatus)?.controlPlane === true);
  isDown = true;
  values.localRoles.set(controlOnly);
  await settle();
  await tree.clock.advance(500);
  isDown = false;
  values.localRoles.set(all);
  await tree.clock.advance(60_000);
  expect(taintsOf(commands)).toEqual([TAINT, TAINT, `${TAINT}-`]);
});

const TAINT = 'node-role.kubernetes.io/control-plane:NoSchedule';

/** The changes of the node's taint, in order. */
function taintsOf({ runs }: FakeCommands): readonly string[] {
  return runs.flatMap((argv) => argv.filter((arg) => arg.startsWith(TAINT)));
}
