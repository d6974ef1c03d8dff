import { expect, test } from '@jest/globals';
import { createPairs, type KeySet } from '../../internal/keyset/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  FakeCommands,
  FakeUnits,
  MemoryFiles,
  settleUntil,
  superviseForTest,
} from '../../internal/testing/index.ts';
import { installSharedKeys, KeyStore } from '../keyrotation/index.ts';
import {
  CONTROL_PLANE_KEY_FILES,
  Kubeadm,
  KUBELET_FILES,
  PATHS,
  StepCheckpoints,
} from '../kubernetes/index.ts';
import { all, components, etcd, host, membership, NotedPhases, settings } from '../roleserve/fake-node.ts';
import { kubernetesWorker } from '../roleserve/index.ts';
import { createFakeRoleValues } from '../roleserve/fake-role-values.ts';
import { AGENT_PATHS, KEY_PATHS } from '../nodestate/index.ts';

const caKey = generateKeyPem();
const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });

/** A control plane's disk, which survives restarts of the agent. */
async function createDisk(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  for (const path of [...Object.values(KUBELET_FILES), ...Object.values(CONTROL_PLANE_KEY_FILES)]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    const isOfAuthority = /kubernetes-ca|front-proxy|\/ca\./.test(path);
    const text = path.endsWith('.key') ? caKey.reveal() : caPem;
    await files.writeAtomic(path, isOfAuthority ? text : path);
  }
  await files.makeDirectory(PATHS.manifests);
  for (const pod of ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'])
    await files.writeAtomic(`${PATHS.manifests}/${pod}.yaml`, pod);
  return files;
}

/**
 * Runs the agent once with this disk until the control plane serves again or kubeadm rewrites the static
 * pods.
 */
async function live(files: MemoryFiles, isUp = true): Promise<'serves' | 'writes pods' | undefined> {
  const store = new KeyStore(files, KEY_PATHS);
  await installSharedKeys(files, store, AGENT_PATHS.state);
  const [values, commands, units] = [createFakeRoleValues(), new FakeCommands(), new FakeUnits()];
  const { log } = createMemoryLogger();
  units.active.add('kubelet.service');
  const worker = kubernetesWorker({
    ...{ reads: values, writes: values, phases: new NotedPhases(), host, nodeId: 'node-1' },
    ownAddress: () => '198.18.0.11',
    secondaryAddress: () => undefined,
    isCreatingCluster: () => false,
    isRestoringCluster: () => false,
    isKeyChangePending: () => store.isActivationPending(),
    apiServerEtcd: etcd,
    ports: {
      ...{ files, commands, units, log, clock: new FakeClock(), checkpoints: new StepCheckpoints(files) },
      kubeadm: new Kubeadm({ commands, log }),
      probeNode: () => Promise.resolve(),
      probe: () => (isUp ? Promise.resolve() : Promise.reject(new Error('connect ECONNREFUSED'))),
      isListening: () => Promise.resolve(false),
    },
  });
  values.clusterSettings.set(settings);
  values.clusterMembership.set(membership);
  values.localRoles.set(all);
  values.localComponents.set(components);
  values.localControlPlane.set({ apiServerEtcd: etcd, curatorEndpoint: 'c' });
  await using _life = superviseForTest(worker);
  const cameTo = (): 'serves' | 'writes pods' | undefined => {
    if (commands.runs.some((argv) => argv.includes('control-plane'))) return 'writes pods';
    const now = values.kubernetesStatus.peek();
    return now.set && now.value?.controlPlane === true ? 'serves' : undefined;
  };
  await settleUntil(() => cameTo() !== undefined);
  return cameTo();
}

test('an agent that was killed after it stored a key rotation phase changes no static pod until it holds the membership slot', async () => {
  const files = await createDisk();
  const store = new KeyStore(files, KEY_PATHS);
  const set: KeySet = {
    generation: 2,
    phase: 'trust',
    previous: await createPairs(1, Date.now()),
    next: await createPairs(2, Date.now()),
  };
  await store.saveSet(set); // the agent is killed here
  expect(await live(files)).toBe('serves');
  // The agent was killed while it held the membership slot and its API server was stopping. The next run
  // waits for the API server only once it holds the slot again.
  expect(await live(files, false)).toBe('serves');
  // The phase of the key rotation is active now: the agent rewrites at once every static pod that differs
  // from the disk.
  await store.saveStage(set);
  expect(await live(files)).toBe('writes pods');
});
