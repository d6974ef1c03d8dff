import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import {
  Curator,
  NodeHealth,
  NodeRole,
  NodeState,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { SystemClock } from '../../../internal/clock/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { EtcdError } from '../../../internal/etcd/index.ts';
import { renderKubeconfig } from '../../../internal/kube/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  verifyMemberCertificate,
} from '../../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade, type Handlers } from '../../../internal/rpc/index.ts';
import {
  createMemoryLogger,
  FakeCommands,
  FaultyFiles,
  MemoryFiles,
} from '../../../internal/testing/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { createKubernetes } from '../curator/fake-kubernetes.ts';
import {
  changeServer,
  generateWorkspace,
  openWorkspace,
  runKubeconfig,
  runNodeList,
  runStatus,
} from '../index.ts';
import { readOwnerKey } from '../../workspace/index.ts';
import { noPassphrases, plainSecrets } from '../../workspace/fake-passphrases.ts';

const CLUSTER_ID = '00112233445566778899aabbccddeeff';
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

const node = {
  nodeId: 'node-1',
  name: 'n1',
  state: NodeState.UP,
  roles: [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_WORKER],
  health: NodeHealth.HEALTHY,
  createdMs: 0n,
  status: {
    address: '192.0.2.1',
    kubernetesVersion: 'v1.35.4',
    agentVersion: '0.1.0',
    certificates: [
      { name: 'kubelet', notAfterMs: 9n },
      { name: 'node', notAfterMs: 1n },
    ],
  },
};

const unused = () => Promise.reject(new Error('not part of this test'));
async function* unusedStream(): AsyncGenerator<never> {
  yield await unused();
}

const handlers: Handlers<typeof Curator, string> = {
  checkHealth: unused,
  getClusterInfo: async () => ({
    clusterName: 'prod',
    createdMs: 0n,
    etcd: {
      dbSizeBytes: 1024n,
      quotaBytes: 4096n,
      hasLeader: true,
      members: [{ name: 'a' }, { name: 'b', isLearner: true }],
    },
  }),
  getNode: unused,
  listNodes: async () => ({ nodes: [node] }),
  watchNode: unusedStream,
  watchNodes: unusedStream,
  updateNodeStatus: unused,
  heartbeat: unusedStream,
  setNodeRoles: unused,
  setNodeState: unused,
  updateNodeLabels: unused,
  updateNodeTaints: unused,
  deleteNode: unused,
  getConfiguration: unused,
  updateConfiguration: unused,
  getInitResult: unused,
};

const admissionUnused = Object.fromEntries(OperatorApi.methods.map(({ localName }) => [localName, unused]));
const admission = {
  listJoins: async () => ({ joins: [{ joinId: 'a' }, { joinId: 'b' }] }),
  getKeys: async () => ({
    stage: { generation: 2n, phase: 'issue' },
    phaseSinceMs: BigInt(Date.now()),
    awaited: [{ name: 'n2', why: 'it is off' }],
  }),
};

function contextOf(files: MemoryFiles): CommandContext & { readonly host: RecordingHost } {
  return {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock: new SystemClock() },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace: '/workspace' },
    passphrases: noPassphrases,
    env: { KUBECONFIG: '/home/me/kc' },
    signal: new AbortController().signal,
  };
}

async function createSigner(commonName: string): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName, keyPem, nowMs: Date.now() });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() });
}

const cutOff = () => Promise.reject(new EtcdError('etcd-unavailable', 'reading the record of the cluster'));

/** Starts a curator of the cluster of `signer`; returns its endpoint. */
async function startCurator(
  signer: KeyCertificateSigner,
  calls: Partial<Handlers<typeof Curator, string>> = {},
): Promise<string> {
  const keyPem = generateKeyPem();
  const certPem = await signer.issue(
    nodeLeaf({
      clusterId: CLUSTER_ID,
      pubKeyDer: pubKeyDerOf(keyPem),
      addresses: ['127.0.0.1'],
      isControlPlane: true,
    }),
  );
  const trust = { caPem: signer.caPem, clusterId: CLUSTER_ID, nowMs: () => Date.now() };
  const server = new RpcServer<string>({
    clock: new SystemClock(),
    upgrade: tlsServerUpgrade({
      clock: new SystemClock(),
      identity: { certPem, keyPem },
      accept: (shown) => verifyMemberCertificate(shown, trust).kind,
    }),
    services: [
      implement(Curator, { ...handlers, ...calls }),
      implement(OperatorApi, { ...admissionUnused, ...admission } as never),
    ],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  open.push(server);
  return `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
}

/** A workspace with a finished init. Nothing listens on the port of its Kubernetes API. */
async function start(endpoints: (signer: KeyCertificateSigner) => Promise<string[]>): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  const context = contextOf(files);
  await files.makeDirectory('/home/me');
  await generateWorkspace(context, { name: 'prod' });
  const signer = await createSigner('cluster');
  await using workspace = await openWorkspace(context, 'test');
  const { keyPem } = await readOwnerKey(plainSecrets(files), workspace.layout);
  const ownerCertPem = await signer.issue(
    operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer: pubKeyDerOf(keyPem), name: 'owner' }),
  );
  const curatorEndpoints = await endpoints(signer);
  await workspace.state.update((state) => ({
    ...state,
    init: {
      id: '6b0f3f5e-7d0c-4b0a-9d0e-1f2a3b4c5d6e',
      endpoint: '127.0.0.1:1',
      fingerprint: 'sha256:00',
      requestHash: '00',
      startedMs: 0,
      stage: 'acknowledged',
      result: {
        clusterId: CLUSTER_ID,
        nodeId: 'node-1',
        nodeName: 'n1',
        clusterCaPem: signer.caPem,
        ownerCertPem,
        kubernetesCaPem: '',
        adminCertPem: '',
        apiEndpoints: ['127.0.0.1:1'],
        curatorEndpoints,
        epoch: '1',
      },
    },
  }));
  const access = { server: 'https://127.0.0.1:1', caPem: signer.caPem, certPem: ownerCertPem, keyPem };
  await files.writeAtomic('/workspace/kubeconfig', renderKubeconfig('prod', access));
  return files;
}

describe('runNodeList()', () => {
  test('calls the next curator when the first does not respond', async () => {
    const context = contextOf(await start(async (signer) => ['127.0.0.1:1', await startCurator(signer)]));
    await runNodeList(context, { wide: true });
    expect(context.host.answered).toMatchObject({
      nodes: [
        {
          name: 'n1',
          roles: ['control-plane', 'worker'],
          state: 'up',
          health: 'healthy',
          address: '192.0.2.1',
        },
      ],
    });
    const [record] = context.host.records;
    const table = record?.kind === 'result' ? record.text.split('\n') : [];
    expect(table[0]).toMatch(
      /^NAME +STATUS +KUBELET +ROLES +AGE +VERSION +ADDRESS +CERTIFICATES +AGENT +ID +LABELS +LAST ERROR$/,
    );
    expect(table[1]).toMatch(/^n1 +Healthy +Unknown +control-plane,worker /);
  });

  test('does not read cluster.yaml, which only has to exist', async () => {
    const files = await start(async (signer) => [await startCurator(signer)]);
    await files.writeAtomic('/workspace/cluster.yaml', 'name: [');
    await runNodeList(contextOf(files), { wide: false });
    await files.remove('/workspace/cluster.yaml');
    await expect(runNodeList(contextOf(files), { wide: false })).rejects.toMatchObject({
      code: 'workspace-missing',
    });
  });

  test('calls the next curator when the first one has no etcd quorum', async () => {
    const context = contextOf(
      await start(async (signer) => [
        await startCurator(signer, { listNodes: cutOff, getClusterInfo: cutOff }),
        await startCurator(signer),
      ]),
    );
    await runNodeList(context, { wide: false });
    expect(context.host.answered).toMatchObject({ nodes: [{ name: 'n1' }] });
  });

  test('reports a lost quorum, the number of curators that respond, and the way to recover', async () => {
    const context = contextOf(
      await start(async (signer) => [
        '127.0.0.1:1',
        await startCurator(signer, { listNodes: cutOff, getClusterInfo: cutOff }),
        '127.0.0.1:2',
      ]),
    );
    await expect(runNodeList(context, { wide: false })).rejects.toMatchObject({
      code: 'cluster-quorum-lost',
      message: expect.stringContaining('1 of 3 curators respond and have no etcd quorum'),
      fix: expect.stringContaining('cluster recover quorum'),
    });
  });

  test('fails when no curator responds', async () => {
    const context = contextOf(await start(async () => ['127.0.0.1:1']));
    await expect(runNodeList(context, { wide: false })).rejects.toMatchObject({
      code: 'cluster-curator-unreachable',
      exit: 'unreachable',
    });
  });

  test('calls the next curator when another machine took over the address of the first one', async () => {
    const context = contextOf(
      await start(async (signer) => [
        await startCurator(await createSigner('other')),
        await startCurator(signer),
      ]),
    );
    await runNodeList(context, { wide: false });
    expect(context.host.answered).toMatchObject({ nodes: [{ name: 'n1' }] });
  });

  test('refuses a curator of another cluster', async () => {
    const context = contextOf(await start(async () => [await startCurator(await createSigner('other'))]));
    await expect(runNodeList(context, { wide: false })).rejects.toMatchObject({ exit: 'refused' });
  });

  test('fails in a workspace without a cluster', async () => {
    const files = new MemoryFiles();
    await generateWorkspace(contextOf(files), { name: 'prod' });
    await expect(runNodeList(contextOf(files), { wide: false })).rejects.toMatchObject({
      code: 'cluster-not-initialized',
    });
  });
});

test('runStatus() shows the parts that can be read and why others cannot, and exits as unhealthy', async () => {
  const context = contextOf(await start(async (signer) => [await startCurator(signer)]));
  expect(await runStatus(context, { wide: true })).toBe('unhealthy');
  expect(context.host.answered).toMatchObject({
    yours: { certificateMs: expect.any(Number), kubeconfigMs: expect.any(Number) },
    name: 'prod',
    healthy: false,
    curator: {
      ok: true,
      value: {
        etcd: { members: 1, learners: 1, quotaBytes: 4096 },
        quorum: { voters: 1, needed: 1, healthy: 1, spare: 0 },
        pendingJoins: 2,
        nodes: [
          {
            name: 'n1',
            expiry: { certificate: 'node', notAfterMs: 1 },
            certificates: [
              { name: 'kubelet', notAfterMs: 9 },
              { name: 'node', notAfterMs: 1 },
            ],
          },
        ],
      },
    },
    kubernetes: { ok: false, error: expect.stringContaining('ECONNREFUSED') },
  });
  const text = context.host.records
    .flatMap((record) => (record.kind === 'result' ? [record.text] : []))
    .join();
  expect(text).toMatch(/^quorum +1 of 1 voter needed, 1 healthy; tolerates no failures$/m);
  expect(text).toMatch(/^joins +2 machines pending/m);
  expect(text).toMatch(/^! certificate node of node n1 expired \d+d ago$/m);
  expect(text).toMatch(/\n`cluster doctor` checks every layer and names the likely cause\.$/);
  expect(text).toMatch(/^your credentials +certificate expires in 36\dd, kubeconfig expires in 36\dd/m);
  expect(text).toMatch(/^n1 +node +expired \d+d ago\nn1 +kubelet +expired \d+d ago$/m);
  expect(text).toMatch(/^key rotation +phase 4 of 6: .*; waiting for n2 \(it is off\)$/m);
});

test('runStatus() has each voter asked, and does not count one that is silent although its node is healthy', async () => {
  const context = contextOf(
    await start(async (signer) => [
      await startCurator(signer, {
        getClusterInfo: async ({ probeMembers }) => ({
          etcd: {
            hasLeader: true,
            members: ['a', 'b', 'c'].map((name) => ({
              name,
              ...(probeMembers === true ? { answers: name !== 'c' } : {}),
            })),
          },
        }),
      }),
    ]),
  );
  expect(await runStatus(context, { wide: false })).toBe('unhealthy');
  expect(context.host.answered).toMatchObject({
    curator: { value: { quorum: { voters: 3, healthy: 2, spare: 0 }, etcd: { silentVoters: ['c'] } } },
  });
});

test('runStatus() lists the nodes that a curator listed last when the quorum is lost', async () => {
  const isLost = { now: false };
  const files = await start(async (signer) => [
    await startCurator(signer, {
      listNodes: (...call) => (isLost.now ? cutOff() : handlers.listNodes(...call)),
      getClusterInfo: (...call) => (isLost.now ? cutOff() : handlers.getClusterInfo(...call)),
    }),
  ]);
  await runNodeList(contextOf(files), { wide: false });
  isLost.now = true;
  const context = contextOf(files);
  expect(await runStatus(context, { wide: false })).toBe('unhealthy');
  expect(context.host.answered).toMatchObject({ lastNodes: { nodes: [{ name: 'n1' }] } });
  const text = context.host.records
    .flatMap((record) => (record.kind === 'result' ? [record.text] : []))
    .join();
  expect(text).toMatch(/^quorum +LOST/m);
  expect(text).toMatch(/^Nodes when a curator last listed them, .* ago:\nNAME +ROLES +ADDRESS\nn1 +/m);
});

describe('when the machine that the kubeconfig names is off', () => {
  async function startWithout(
    address: string,
    namedPort = 1,
  ): Promise<CommandContext & { readonly host: RecordingHost }> {
    const files = await start(async (signer) => [
      await startCurator(signer, {
        getClusterInfo: async () => ({
          clusterName: 'prod',
          directory: [{ nodeId: 'node-2', curatorEndpoint: `${address}:9091` }],
        }),
      }),
    ]);
    const object = { metadata: { annotations: {} }, spec: {} };
    const answer = ({ url }: { readonly url: string }) =>
      url.startsWith('/readyz') ? undefined : { items: [] };
    open.push(
      await createKubernetes(files, '/workspace/kubeconfig', object, {
        address,
        port: PORTS.apiServer,
        answer,
        validDays: 30,
      }),
    );
    const text = Buffer.from((await files.read('/workspace/kubeconfig', 65_536)) ?? '').toString();
    await files.writeAtomic(
      '/workspace/kubeconfig',
      text.replace(`${address}:${PORTS.apiServer}`, `127.0.0.1:${namedPort}`),
    );
    return contextOf(files);
  }

  test('runStatus() reads Kubernetes at another control plane', async () => {
    const context = await startWithout('127.0.71.20');
    await runStatus(context, { wide: false });
    expect(context.host.answered).toMatchObject({ kubernetes: { ok: true } });
  });

  test('runStatus() names the command that writes an API server that responds into the kubeconfig', async () => {
    const context = await startWithout('127.0.71.22');
    expect(await runStatus(context, { wide: false })).toBe('unhealthy');
    const [text] = context.host.records.flatMap((record) => (record.kind === 'result' ? [record.text] : []));
    expect(text).toMatch(
      /^! API server https:\/\/127\.0\.0\.1:1 of the kubeconfig .* `cluster kubeconfig --server https:\/\/127\.0\.71\.22:6443`/m,
    );
  });

  test('changeServer() writes an API server that responds, and keeps the kubeconfig if none responds', async () => {
    const context = await startWithout('127.0.71.23');
    const kubeconfig = async () =>
      Buffer.from((await context.ports.files.read('/workspace/kubeconfig', 65_536)) ?? '').toString();
    const before = await kubeconfig();
    await expect(changeServer(context, 'https://127.0.71.23:1')).rejects.toMatchObject({
      code: 'kube-unreachable',
    });
    expect(await kubeconfig()).toBe(before);
    await changeServer(context, 'https://127.0.71.23:6443');
    expect(await kubeconfig()).toContain('server: https://127.0.71.23:6443');
  });

  test('runNodeList() shows the kubelets that another control plane lists', async () => {
    const context = await startWithout('127.0.71.21');
    await runNodeList(context, { wide: false });
    expect(context.host.answered).toMatchObject({ nodes: [{ name: 'n1', kubelet: undefined }] });
  });

  test('runNodeList() does not wait for it if it takes connections and never answers', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const close = async (): Promise<void> => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => silent.close(resolve));
    };
    open.push({ [Symbol.asyncDispose]: close });
    const context = await startWithout('127.0.71.24', (silent.address() as AddressInfo).port);
    await runNodeList(context, { wide: false });
    expect(context.host.answered).toMatchObject({ nodes: [{ name: 'n1', kubelet: undefined }] });
  });
});

test('runStatus() reports a lost quorum when a later control plane cannot be reached at all', async () => {
  const context = contextOf(
    await start(async (signer) => [
      await startCurator(signer, { listNodes: cutOff, getClusterInfo: cutOff }),
      '127.0.0.1:1',
    ]),
  );
  expect(await runStatus(context, { wide: false })).toBe('unhealthy');
  const [text] = context.host.records.flatMap((record) => (record.kind === 'result' ? [record.text] : []));
  expect(text).toMatch(/^quorum +LOST/m);
});

describe('runKubeconfig()', () => {
  test('prints the kubeconfig of the workspace', async () => {
    const files = await start(async () => []);
    const context = contextOf(files);
    await runKubeconfig(context, { merge: false, home: '/home/me' });
    expect(context.host.answered).toMatchObject({
      path: '/workspace/kubeconfig',
      kubeconfig: expect.stringContaining('current-context: prod'),
    });
  });

  test('does not print the private key of a kubeconfig that the command has changed', async () => {
    const files = await start(async () => []);
    const context = contextOf(files);
    await runKubeconfig(context, { merge: false, isChanged: true, home: '/home/me' });
    const [text] = context.host.records.flatMap((record) => (record.kind === 'result' ? [record.text] : []));
    expect(text).toBe('Next: KUBECONFIG=/workspace/kubeconfig kubectl get nodes');
  });

  test('merges into the file that kubectl reads, under another context name when the name is taken', async () => {
    const files = await start(async () => []);
    await files.writeAtomic('/home/me/kc', 'clusters: [{name: prod, cluster: {server: "https://other"}}]\n');
    const context = contextOf(files);
    await runKubeconfig(context, { merge: true, home: '/home/me' });
    expect(context.host.answered).toEqual({ path: '/home/me/kc', context: 'prod-2' });
    expect(context.host.codes).toEqual(['kubeconfig-renamed']);
    expect((await files.stat('/home/me/kc'))?.mode).toBe(0o600);
  });

  test('merges into the file that a symbolic link of the user names', async () => {
    class LinkedFiles extends FaultyFiles {
      override async resolveTarget() {
        return { kind: 'none', path: '/home/me/settings' } as const;
      }
    }
    const files = await start(async () => []);
    const context = contextOf(files);
    const linked = new LinkedFiles(files, { point: Infinity, fault: 'no-space' });
    const ports = { ...context.ports, files: linked };
    await runKubeconfig({ ...context, ports }, { merge: true, home: '/home/me' });
    expect(await files.stat('/home/me/settings')).toBeDefined();
  });

  test('does not merge the file of the workspace into itself', async () => {
    const files = await start(async () => []);
    const context = { ...contextOf(files), env: { KUBECONFIG: '/workspace/../workspace/kubeconfig' } };
    await runKubeconfig(context, { merge: true, home: '/home/me' });
    expect(context.host.answered).toEqual({ path: '/home/me/.kube/config', context: 'prod' });
  });
});
