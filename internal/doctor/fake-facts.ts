import type {
  ClusterFacts,
  EtcdContentFacts,
  EtcdFacts,
  EtcdMemberFacts,
  GrowthFacts,
  LocalFacts,
  NodeFacts,
  RecordFacts,
} from './cluster-facts.ts';

/** The time of the fake facts. */
export const NOW_MS = Date.UTC(2026, 10, 1);
const DAY_MS = 24 * 60 * 60 * 1000;
const GIB = 1024 ** 3;

/** A node of the records: "id-n1", healthy, with certificates that are far from their end. */
export function fakeNode(name: string, changes: Partial<NodeFacts> = {}): NodeFacts {
  return {
    ...{ id: `id-${name}`, name, address: `192.0.2.${name.slice(1)}`, state: 'up', health: 'healthy' },
    isControlPlane: name !== 'n4',
    createdMs: NOW_MS - DAY_MS,
    ...{ agentVersion: '0.1.0', kubernetesVersion: 'v1.37.2' },
    certificates: [
      { name: '/var/lib/cluster/credentials/node.crt', notAfterMs: NOW_MS + 5 * DAY_MS },
      { name: '/var/lib/cluster/ca/ca.crt', notAfterMs: NOW_MS + 3000 * DAY_MS },
    ],
    ...{ componentsNotReady: [], deadRunnables: [] },
    directories: [{ path: '/var/lib/cluster', protection: 'clear' }],
    ...(name !== 'n4' && { etcdContents: { state: fakeContent(), kubernetes: fakeContent() } }),
    machine: {
      ...{ services: [], problems: [] },
      podNetwork: {
        ...{ address: `10.244.${name.slice(1)}.0`, unreachable: [] },
        fullPackets: { lost: [], judged: 3 },
        roundTrips: ['n1', 'n2', 'n3', 'n4'].flatMap((other) =>
          other === name ? [] : [{ address: `10.244.${other.slice(1)}.0`, ms: 5 }],
        ),
      },
      nameLookup: { failure: '' },
    },
    ...changes,
  };
}

/** An etcd with the voters n1, n2 and n3. */
export function fakeEtcd(changes: Partial<EtcdFacts> = {}): EtcdFacts {
  return {
    ...{ dbSizeBytes: GIB / 16, quotaBytes: 2 * GIB, hasLeader: true, isFull: false, isCorrupt: false },
    members: ['n1', 'n2', 'n3'].map((name) => ({ name: `id-${name}`, isLearner: false })),
    ...changes,
  };
}

/** What the control plane of the leader has found twelve minutes ago: n1, n2 and n3 agree. */
export function fakeContent(changes: Partial<EtcdContentFacts> = {}): EtcdContentFacts {
  return {
    ...{ sinceMs: NOW_MS - DAY_MS, comparedMs: NOW_MS - DAY_MS / 120 },
    ...{ agreeing: ['id-n1', 'id-n2', 'id-n3'], differing: [], notCompared: [] },
    ...changes,
  };
}

/** The figures of an etcd member that is fast and has a leader. */
export function fakeMember(changes: Partial<EtcdMemberFacts> = {}): EtcdMemberFacts {
  return {
    ...{ hasLeader: true, fsync: { ms: 4, within: 16, total: 18 }, peerRoundTripMs: 0.8 },
    ...{ dbSizeBytes: GIB / 16, dbInUseBytes: GIB / 32 },
    ...changes,
  };
}

/** Measurements of nine days in which no disk grows, and the databases grow by 1 MiB a day. */
function fakeGrowth(isControlPlane: boolean): GrowthFacts[] {
  const [measuredMs, bytesPerDay] = [9 * DAY_MS, 1024 ** 2];
  const disks = ['/var/lib/kubelet', '/var/lib/containerd'].map((name): GrowthFacts => {
    return { kind: 'filesystem', name, measuredMs, bytesPerDay: 0 };
  });
  const etcds = ['state', 'kubernetes'].map((name): GrowthFacts => {
    return { kind: 'etcd', name, measuredMs, bytesPerDay };
  });
  return isControlPlane ? [...disks, ...etcds] : disks;
}

/** Facts of a healthy cluster of three control planes and one worker. All findings are good. */
export function fakeFacts(changes: Partial<ClusterFacts> = {}): ClusterFacts {
  const names = ['n1', 'n2', 'n3', 'n4'];
  const controlPlanes = names.slice(0, 3);
  const pod = (namespace: string, name: string, app: string, node: string) => {
    const serversCaReadMs = NOW_MS - DAY_MS;
    return {
      namespace,
      name,
      app,
      node,
      createdMs: NOW_MS - DAY_MS,
      isReady: true,
      why: '',
      serversCaReadMs,
    };
  };
  return {
    ...{ version: 1, takenMs: NOW_MS, cliVersion: '0.1.0', clusterId: 'c0ffee', clusterName: 'prod' },
    credentials: { certificateMs: NOW_MS + 300 * DAY_MS, kubeconfigMs: NOW_MS + 300 * DAY_MS },
    clocks: controlPlanes.map((node) => ({ node, offset: { ok: true, value: { ms: 300 } } })),
    records: {
      ok: true,
      value: {
        ...{ stateEtcd: fakeEtcd(), kubernetesEtcd: fakeEtcd() },
        nodes: names.map((name) => fakeNode(name)),
      },
    },
    // The curator of n1 receives the heartbeats of all nodes.
    curators: controlPlanes.map((node) => ({
      node,
      answer: {
        ok: true,
        value: { clocks: node === 'n1' ? names.map((each) => ({ nodeId: `id-${each}`, ms: -30 })) : [] },
      },
    })),
    joinServices: controlPlanes.map((node) => ({ node, answer: { ok: true, value: {} } })),
    apiServers: controlPlanes.map((node) => ({ node, answer: { ok: true, value: { version: 'v1.37.2' } } })),
    kubeconfig: { server: 'https://192.0.2.1:6443', answer: { ok: true, value: {} } },
    hostNames: [{ name: 'api.prod.example', answer: { ok: true, value: { addresses: ['192.0.2.1'] } } }],
    metrics: names.map((node) => ({
      node,
      answer: {
        ok: true,
        value: {
          ...(controlPlanes.includes(node) && { stateEtcd: fakeMember(), kubernetesEtcd: fakeMember() }),
          growth: fakeGrowth(controlPlanes.includes(node)),
          balancer: controlPlanes.map((_, index) => ({
            server: `192.0.2.${index + 1}:6443`,
            verdict: 'healthy',
          })),
        },
      },
    })),
    kubelets: names.map((node) => ({
      node,
      answer: {
        ok: true,
        value: {
          fileSystems: [
            {
              ...{ name: 'kubelet disk', capacityBytes: 100 * GIB, availableBytes: 60 * GIB },
              ...{ inodes: 1_000_000, inodesFree: 900_000 },
            },
          ],
        },
      },
    })),
    kubernetes: {
      ok: true,
      value: {
        nodes: names.map((name) => ({
          ...{ name, isReady: true, why: '', pressures: [], kubeletVersion: 'v1.37.2' },
        })),
        pods: [
          ...names.map((node) => pod('kube-flannel', `flannel-${node}`, '', node)),
          ...names.map((node) => pod('kube-system', `kube-proxy-${node}`, 'kube-proxy', node)),
          pod('kube-system', 'coredns-1', 'kube-dns', 'n4'),
          pod('default', 'web-1', 'web', 'n4'),
        ],
        budgets: [{ namespace: 'default', name: 'web', expectedPods: 2, healthyPods: 2, allowed: 1 }],
        serversCas: ['default', 'kube-system', 'kube-flannel'].map((namespace) => {
          return { namespace, changedMs: NOW_MS - 2 * DAY_MS };
        }),
        failures: { webhooks: [], apis: [], namespaces: [], deployments: [] },
        releases: [{ namespace: 'kube-flannel', name: 'flannel', revision: 1, status: 'deployed' }],
      },
    },
    evidence: names.map((node) => ({
      node,
      answer: { ok: true, value: { variant: 'tpm', profile: 'measured', isAccepted: true } },
    })),
    keys: { ok: true, value: { generation: 1, phase: 'done', isDone: true, phaseSinceMs: 0, awaited: [] } },
    joins: { ok: true, value: [] },
    documents: {
      ok: true,
      value: [
        { kind: 'policy', endsMs: NOW_MS + 300 * DAY_MS },
        { kind: 'settings', endsMs: NOW_MS + 3000 * DAY_MS },
      ],
    },
    collateral: { ok: true, value: [] },
    backups: {
      ok: true,
      value: {
        schedule: {
          ...{ everyMs: DAY_MS / 4, issuedMs: NOW_MS - 10 * DAY_MS, endsMs: NOW_MS + 355 * DAY_MS },
          nodeIds: controlPlanes.map((name) => `id-${name}`),
        },
        ...{ newestTakenMs: NOW_MS - DAY_MS / 8, newestProvedMs: NOW_MS - DAY_MS / 8 },
        copies: controlPlanes.map((node) => ({ node, count: 7 })),
      },
    },
    charts: ['flannel'],
    ...changes,
  };
}

/** Facts with other records. */
export function factsWithRecords(changes: Partial<RecordFacts>): ClusterFacts {
  const facts = fakeFacts();
  if (!facts.records.ok) throw new Error('fake facts have records');
  return { ...facts, records: { ok: true, value: { ...facts.records.value, ...changes } } };
}

/**
 * Facts in which agents report these round trips to other nodes, in ms, and no others. An agent that is not named reports
 * an empty list.
 */
export function factsWithRoundTrips(
  found: Readonly<Record<string, Readonly<Record<string, number>>>>,
  changes: Readonly<Record<string, Partial<NodeFacts>>> = {},
): ClusterFacts {
  const addressOf = (node: string): string => `10.244.${node.slice(1)}.0`;
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => {
    const roundTrips = Object.entries(found[name] ?? {}).map(([to, ms]) => ({ address: addressOf(to), ms }));
    const podNetwork = { address: addressOf(name), unreachable: [], roundTrips };
    return fakeNode(name, { machine: { services: [], problems: [], podNetwork }, ...changes[name] });
  });
  return factsWithRecords({ nodes });
}

const NOT_ASKED = { ok: false as const, error: 'collected on the machine', codes: [] };

/** What the healthy control plane n1 tells about itself. */
export function fakeLocalFacts(changes: Partial<LocalFacts> = {}): LocalFacts {
  const unit = {
    isNeeded: true,
    load: 'loaded',
    active: 'active',
    sub: 'running',
    result: 'success',
    restarts: 0,
  };
  return {
    ...{ node: 'n1', isMember: true, isControlPlane: true },
    units: {
      ok: true,
      value: ['bootstrapper.service', 'cluster-etcd-state.service', 'kubelet.service'].map((name) => ({
        ...unit,
        name,
      })),
    },
    network: {
      ownAddress: '192.0.2.1',
      addresses: ['192.0.2.1'],
      peers: ['n2', 'n3'].map((node) => ({
        node,
        endpoint: `192.0.2.${node.slice(1)}:9091`,
        answer: { ok: true, value: {} },
      })),
    },
    fileSystems: [{ name: '/var/lib/cluster', capacityBytes: 100, availableBytes: 60 }],
    certificates: fakeNode('n1').certificates,
    requirements: { ok: true, value: [] },
    ...changes,
  };
}

/** Facts that were collected on n1 itself. */
export function factsOfMachine(changes: Partial<LocalFacts> = {}): ClusterFacts {
  const { version, takenMs, cliVersion, clusterId, clusterName, metrics, apiServers } = fakeFacts();
  const isOwn = ({ node }: { readonly node: string }): boolean => node === 'n1';
  return {
    ...{ version, takenMs, cliVersion, clusterId, clusterName, clocks: [], curators: [], kubelets: [] },
    ...{ records: NOT_ASKED, keys: NOT_ASKED, joins: NOT_ASKED, documents: NOT_ASKED, collateral: NOT_ASKED },
    ...{ kubernetes: NOT_ASKED, metrics: metrics.filter(isOwn), apiServers: apiServers.filter(isOwn) },
    local: fakeLocalFacts(changes),
  };
}
