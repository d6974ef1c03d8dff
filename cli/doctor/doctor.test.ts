import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:net';
import {
  encodeBackupCertificate,
  type CopyStore,
  recoveryKeyOfOwner,
  signBackupCertificate,
} from '../../internal/backup/index.ts';
import { parseClusterConfig } from '../../internal/config/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { MAX_FACTS_BYTES, parseFacts, type Finding } from '../../internal/doctor/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import { EtcdError } from '../../internal/etcd/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import {
  contextOf,
  createCuratorHarness,
  HarnessClock,
  type FakeAdmissionCalls,
  type FakeCuratorCalls,
  type FakeStreamCalls,
} from '../cluster/curator/fake-curator.ts';
import { createKubernetes, FakeResponse } from '../cluster/curator/fake-kubernetes.ts';
import { createMachine, evidenceAnswer, evidenceConfiguration } from '../nodes/fake-evidence.ts';
import { planCharts, readOwnInputs } from '../charts/index.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';
import { runDoctor, watchDoctor } from './index.ts';

const MACHINE = createMachine('a', 'n1');
const NODE_ID = MACHINE.record.nodeId;
const WORKER = createMachine('b', 'n2');
const ADDRESS = '127.0.71.1';
const DAY_MS = 86_400_000;
/** Does not wait between the two readings of the metrics. */
const QUICK = { windowMs: 1 };
const open: AsyncDisposable[] = [];
async function close(): Promise<void> {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
}
afterEach(close);

const GROWTH = ['/var/lib/kubelet', '/var/lib/containerd']
  .flatMap((path) => [
    `cluster_filesystem_growth_measured_seconds{path="${path}"} 90000`,
    `cluster_filesystem_growth_bytes_per_second{path="${path}"} 0`,
  ])
  .join('\n');

const METRICS = ['state', 'kubernetes']
  .flatMap((etcd) => [
    `etcd_server_has_leader{etcd="${etcd}"} 1`,
    `etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004",etcd="${etcd}"} 10`,
    `etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf",etcd="${etcd}"} 10`,
    `etcd_mvcc_db_total_size_in_bytes{etcd="${etcd}"} 4096`,
    `etcd_mvcc_db_total_size_in_use_in_bytes{etcd="${etcd}"} 4096`,
  ])
  .concat(GROWTH)
  .join('\n');

const ETCD = { dbSizeBytes: 4096n, quotaBytes: 1_000_000n, hasLeader: true, members: [{ name: NODE_ID }] };

const node = () => ({
  ...{ ...MACHINE.record, state: NodeState.UP, health: NodeHealth.HEALTHY, createdMs: 1n },
  roles: [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER, NodeRole.KUBERNETES_WORKER],
  status: {
    ...{ address: ADDRESS, agentVersion: '0.1.0', kubernetesEtcd: ETCD },
    // No version: when its support ends is a date, and these tests run at any time.
    kubernetesVersion: '',
    dataDirectories: [{ path: '/var/lib/cluster', protection: 'clear' }],
    machine: { services: [], problems: [] },
    etcdContents: { state: { sinceMs: 1n }, kubernetes: { sinceMs: 1n } },
    certificates: [{ name: '/etc/node.crt', notAfterMs: BigInt(Date.now() + 5 * DAY_MS) }],
  },
});

const workerNode = () => ({ ...node(), ...WORKER.record, roles: [NodeRole.KUBERNETES_WORKER] });

const SERVERS_CAS = '/api/v1/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt';
/** The metadata of a ConfigMap whose data changed at `time`, and whose labels changed later. */
const serversCaOf = (namespace: string, time: string) => ({
  metadata: {
    namespace,
    managedFields: [
      { time, fieldsV1: { 'f:data': { 'f:ca.crt': {} } } },
      { time: '2026-11-03T10:00:00Z', fieldsV1: { 'f:metadata': {} } },
    ],
  },
});

/** Responses of a healthy Kubernetes with one node. */
function healthyKubernetes(url: string): unknown {
  const ready = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
  const pod = (namespace: string, name: string, app: string) => ({
    metadata: { namespace, name, labels: { 'k8s-app': app } },
    spec: {
      nodeName: 'n1',
      volumes: [{ projected: { sources: [{}, { configMap: { name: 'kube-root-ca.crt' } }] } }],
    },
    status: {
      ...ready,
      containerStatuses: [
        { name: 'a', ready: true, state: { running: { startedAt: '2026-11-01T10:00:00Z' } } },
        { name: 'b', ready: true, state: { running: { startedAt: '2026-11-01T11:00:00Z' } } },
      ],
    },
  });
  const disk = { availableBytes: 60, capacityBytes: 100, inodes: 100, inodesFree: 90 };
  if (url === '/version') return { gitVersion: 'v1.37.2' };
  if (url === '/api/v1/nodes')
    return {
      items: [
        {
          metadata: { name: 'n1' },
          status: {
            conditions: [{ type: 'Ready', status: 'True' }],
            nodeInfo: { kubeletVersion: 'v1.37.2' },
          },
        },
      ],
    };
  if (url === '/api/v1/pods')
    return {
      items: [
        pod('kube-flannel', 'flannel-1', ''),
        pod('kube-system', 'kube-proxy-1', 'kube-proxy'),
        pod('kube-system', 'coredns-1', 'kube-dns'),
      ],
    };
  if (url === SERVERS_CAS) return { items: [serversCaOf('kube-system', '2026-11-01T10:00:00Z')] };
  if (/^\/apis\/(policy|admissionregistration[.]k8s[.]io|apiregistration[.]k8s[.]io|apps)\//.test(url))
    return { items: [] };
  if (url === '/api/v1/namespaces') return { items: [] };
  if (url.startsWith('/api/v1/secrets')) return { items: [] };
  if (url === '/api/v1/nodes/n1/proxy/stats/summary')
    return { node: { fs: disk, runtime: { imageFs: disk } } };
  return undefined;
}

interface Faults {
  readonly curator?: FakeCuratorCalls;
  readonly admission?: FakeAdmissionCalls;
  readonly streams?: FakeStreamCalls;
  readonly kubernetes?: (url: string) => unknown;
  readonly aheadMs?: number;
  /** Whether a join service listens. */
  readonly joins?: boolean;
}

async function createCluster(
  { curator, admission, streams, kubernetes, aheadMs = 0, joins = true }: Faults = {},
  clock = new HarnessClock(),
) {
  let endpoint = '';
  const harness: Awaited<ReturnType<typeof createCuratorHarness>> = await createCuratorHarness(
    {
      checkHealth: async ({ withClocks }) => ({
        nodeId: NODE_ID,
        clocks: withClocks
          ? [NODE_ID, WORKER.record.nodeId].map((nodeId) => ({ nodeId, offsetMs: -30n }))
          : [],
      }),
      getClusterInfo: async () => ({
        clusterName: 'prod',
        directory: [{ nodeId: NODE_ID, name: 'n1', curatorEndpoint: endpoint }],
        etcd: ETCD,
      }),
      listNodes: async () => ({ nodes: [node()] }),
      getConfiguration: async () => ({ document: new TextEncoder().encode('{}') }),
      ...curator,
    },
    {
      listJoins: async () => ({ joins: [] }),
      getKeys: async () => ({ stage: { generation: 1n, phase: 'done' } }),
      getCollateral: async () => ({}),
      listBackups: async () => ({}),
      ...admission,
    },
    {
      getMetrics: async () => ({ text: METRICS }),
      getEvidence: async ({ node: of, nonce }) =>
        evidenceAnswer(of === NODE_ID ? MACHINE : WORKER, { clusterId: harness.clusterId, nonce }),
      ...streams,
    },
    { address: ADDRESS },
  );
  open.push(harness);
  ({ endpoint } = harness);
  await harness.files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration());
  if (joins) open.push(await listenOn(PORTS.join));
  const spec = { metadata: { annotations: {} }, spec: {} };
  const answer = ({ url }: { readonly url: string }) => kubernetes?.(url) ?? healthyKubernetes(url);
  open.push(
    await createKubernetes(harness.files, '/owner/kubeconfig', spec, {
      ...{ address: ADDRESS, port: PORTS.apiServer, answer, acceptsAnonymous: true, validDays: 30 },
    }),
  );
  clock.aheadMs = aheadMs;
  const context = contextOf(harness.files, '/owner', undefined, clock);
  return { ...harness, context };
}

/** A join service, as far as the doctor looks at it. */
async function listenOn(port: number): Promise<AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  server.listen(port, ADDRESS);
  await once(server, 'listening');
  return { [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

interface Result {
  readonly problems: readonly Finding[];
  readonly findings: readonly Finding[];
}

async function doctor(
  context: CommandContext & { readonly host: { readonly answered: unknown } },
  ...nodes: string[]
) {
  const exit = await runDoctor(context, QUICK, nodes);
  return { exit, result: context.host.answered as Result };
}

/** Instead of waiting between two rounds of `--watch`, changes what the next round finds. */
class RoundClock extends HarnessClock {
  readonly #rounds: (() => void)[];

  constructor(rounds: readonly (() => void)[]) {
    super();
    this.#rounds = [...rounds];
  }

  override async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (ms < 30_000) return super.sleep(ms, signal);
    const next = this.#rounds.shift();
    if (next === undefined) throw new Error('interrupted');
    next();
  }
}

describe('watchDoctor()', () => {
  test('writes a result at first and whenever a problem appears or ends, but not when only a figure changes', async () => {
    let version = 'v1.37.2';
    const set = (text: string) => () => void (version = text);
    const nothing = () => undefined;
    const cluster = await createCluster(
      { kubernetes: (url) => (url === '/version' ? { gitVersion: version } : undefined) },
      new RoundClock([nothing, set('v1.35.0'), set('v1.34.0'), set('v1.37.2'), nothing]),
    );
    await expect(watchDoctor(cluster.context, QUICK, [])).rejects.toThrow('interrupted');
    const results = cluster.context.host.records.flatMap((record) =>
      record.kind === 'result' ? [record] : [],
    );
    const changes = results.map(({ data }) => data as { appeared: Finding[]; ended: Finding[] });
    expect(
      changes.map(({ appeared, ended }) => [appeared, ended].map((of) => of.map(({ code }) => code))),
    ).toEqual([
      [[], []],
      [['doctor-skew'], []],
      [[], ['doctor-skew']],
    ]);
    expect(results[0]?.text).toMatch(/No problems/);
    expect(results[1]?.text).toMatch(/^error: the kubelet of n1 has version .*\[doctor-skew\]$/m);
    expect(results[2]?.text).toMatch(/^ended: .*\[doctor-skew\]$/m);
  });

  test('refuses --at, --facts and --save-facts', async () => {
    const { context } = await createCluster();
    for (const flags of [{ at: 1 }, { facts: 'f' }, { saveFacts: 'f' }])
      await expect(watchDoctor(context, flags, [])).rejects.toMatchObject({ code: 'app-usage' });
  });
});

describe('runDoctor()', () => {
  test.each([
    { name: 'as cluster.yaml says is good', content: 'chart', grade: 'good' },
    { name: 'that differs from cluster.yaml is a warning', content: 'another chart', grade: 'warning' },
  ])('a chart $name, and the facts have no hash of its values', async ({ content, grade }) => {
    const charts = [{ name: 'web', chart: './web.tgz', namespace: 'shop', values: { a: 1 } }];
    const config = JSON.stringify({ ...(JSON.parse(evidenceConfiguration()) as object), charts });
    let inputs = '';
    const labels = () => ({ name: 'web', version: '1', status: 'deployed', 'cluster-inputs': inputs });
    const kubernetes = (url: string) =>
      url.startsWith('/api/v1/secrets')
        ? { items: [{ metadata: { namespace: 'shop', labels: labels() } }] }
        : undefined;
    const { context, files } = await createCluster({ kubernetes });
    await files.writeAtomic('/owner/cluster.yaml', config);
    await files.writeAtomic('/owner/web.tgz', 'chart');
    const installed = { web: { inputsHash: 'ab', installedMs: 1 } };
    const state = await StateFile.read(files, layoutOf('/owner'));
    await state.update((value) => ({ ...value, charts: installed }));
    const plan = planCharts(parseClusterConfig(config, 'cluster.yaml'), { kind: 'all' });
    const ports = { files, root: '/owner', env: {}, signal: context.signal };
    inputs = (await readOwnInputs(plan, ports)).get('shop/web') ?? '';

    await files.writeAtomic('/owner/web.tgz', content);
    await runDoctor(context, { ...QUICK, saveFacts: '/owner/facts.json' }, []);
    const { findings } = context.host.answered as Result;
    expect(findings.find(({ code }) => code === 'doctor-chart')).toMatchObject({
      subject: 'chart web',
      grade,
    });
    const facts = Buffer.from((await files.read('/owner/facts.json', MAX_FACTS_BYTES)) ?? []).toString();
    expect(facts).toContain('"isAsConfigured"');
    expect(facts).not.toContain(inputs);
  });

  test('with --at DATE, lists what expires before that date and who renews it', async () => {
    const { context } = await createCluster();
    const exit = await runDoctor(context, { ...QUICK, at: 40 * DAY_MS }, []);
    const { endings } = context.host.answered as {
      readonly endings: readonly { readonly subject: string; readonly renewsItself: boolean }[];
    };
    expect(endings.map(({ subject, renewsItself }) => [subject, renewsItself])).toEqual([
      ['certificates of n1', true],
      ['kubeconfig of this workspace', false],
    ]);
    expect(exit).toBe('warnings');
  });

  test.each([
    { name: 'once is measured again, and is no slow disk', slow: [1], grade: 'good', readings: 3 },
    { name: 'in both measurements is a slow disk', slow: [1, 2], grade: 'warning', readings: 3 },
    { name: 'never is measured once', slow: [], grade: 'good', readings: 2 },
  ])('a member whose fsyncs are slow $name', async ({ slow, grade, readings }) => {
    let [reading, fast, all] = [-1, 0, 0];
    const getMetrics = async () => {
      reading++;
      all += 10;
      if (!slow.includes(reading)) fast += 10;
      const buckets = [
        `etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004",etcd="state"} ${fast}`,
        `etcd_disk_wal_fsync_duration_seconds_bucket{le="0.064",etcd="state"} ${all}`,
        `etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf",etcd="state"} ${all}`,
      ];
      return { text: ['etcd_server_has_leader{etcd="state"} 1', ...buckets].join('\n') };
    };
    const { context } = await createCluster({ streams: { getMetrics } });
    const { result } = await doctor(context);
    expect(result.findings).toContainEqual(
      expect.objectContaining({ code: 'doctor-fsync', subject: 'state etcd of n1', grade }),
    );
    expect(reading + 1).toBe(readings);
  });

  test('with --at DATE, ends with 0 on a new cluster, whose growth nobody can know yet', async () => {
    const text = METRICS.replaceAll(/^.*growth_bytes_per_second.*\n/gm, '').replaceAll(
      /(growth_measured_seconds\S+) .*$/gm,
      '$1 0',
    );
    const { context } = await createCluster({ streams: { getMetrics: async () => ({ text }) } });
    const exit = await runDoctor(context, { ...QUICK, at: DAY_MS }, []);
    expect(context.host.answered).toMatchObject({
      unknown: expect.arrayContaining([
        expect.objectContaining({ subject: 'growth of the state etcd', isTooEarly: true }),
      ]) as unknown,
    });
    expect(exit).toBe('ok');
  });

  test('with --at DATE, forecasts when a disk passes its limits, and says for which disks it cannot', async () => {
    const text = METRICS.replace(/(growth_bytes_per_second\{path="\/var\/lib\/kubelet"\}) 0/, '$1 0.0001');
    const { context } = await createCluster({ streams: { getMetrics: async () => ({ text }) } });
    const exit = await runDoctor(context, { ...QUICK, at: 40 * DAY_MS }, []);
    const record = context.host.records.find(({ kind }) => kind === 'result');
    expect(record?.kind === 'result' ? record.text : '').toMatch(
      /^\S+Z +\S+ +kubelet disk of n1: less than 15% free \(.* used, 9 B more each day, measured over 1d1h\) +space that you free/m,
    );
    expect(record?.kind === 'result' ? record.text : '').toMatch(
      /^Not known: growth of the state etcd, growth of the Kubernetes etcd \(the agent of n1 does not report it\)$/m,
    );
    expect(exit).toBe('warnings');
  });

  test.each([
    { name: 'a directory', target: { copyTo: '/mnt/backups' } },
    {
      name: 'a store',
      target: {
        copyToStore: { endpoint: 'https://s3.example.org', region: 'eu-1', bucket: 'backups', prefix: '' },
      },
    },
  ])('names a control plane that cannot copy its backups to $name', async ({ target }) => {
    const nowMs = Date.now();
    const certificate = scheduleBytes(target);
    const failure = { nodeId: NODE_ID, nodeName: 'n1', timeMs: BigInt(nowMs), code: 'away', message: 'why' };
    const copies = [{ nodeId: NODE_ID, nodeName: 'n1', directory: 'place', names: [], failure }];
    const { context } = await createCluster({
      admission: { listBackups: async () => ({ certificate, copies }) },
    });
    const { exit, result } = await doctor(context);
    const found = result.problems.filter(({ code }) => code === 'doctor-backup-copies');
    expect(found).toMatchObject([
      { node: 'n1', grade: 'error', cause: expect.stringContaining('away: why') },
    ]);
    expect(exit).toBe('unhealthy');
  });

  test('names a control plane that proved its newest backup on its unencrypted disk', async () => {
    const backup = (seq: bigint, nodeName: string, proofPlace: string) => ({
      ...{ name: 'x', seq, nodeId: nodeName, nodeName, takenMs: 1n, provedMs: 2n, epoch: 1n, sha256: 'a' },
      ...{ sizeBytes: 1n, proofPlace, proofBytes: 3n * 1024n ** 3n },
    });
    // n2 has more memory now than when it proved the older backup.
    const backups = [backup(3n, 'n1', 'clear'), backup(2n, 'n2', 'memory'), backup(1n, 'n2', 'clear')];
    const { context } = await createCluster({
      admission: { listBackups: async () => ({ backups, certificate: scheduleBytes() }) },
    });
    const { result } = await doctor(context);
    expect(result.problems.filter(({ code }) => code === 'doctor-backup-proof')).toMatchObject([
      { node: 'n1', grade: 'warning', cause: expect.stringContaining('3.0 GiB') },
    ]);
  });

  test('finds nothing in a healthy cluster, and prints figures and thresholds', async () => {
    const { context } = await createCluster();
    const { exit, result } = await doctor(context);
    expect(result.findings.filter(({ grade }) => grade !== 'good')).toEqual([]);
    expect(exit).toBe('ok');
    const record = context.host.records.find(({ kind }) => kind === 'result');
    const text = record?.kind === 'result' ? record.text : '';
    expect(text).toMatch(/^ETCD +GRADE +FOUND +THRESHOLD$/m);
    expect(text).toMatch(
      /^state etcd +good +leader, 1 of 1 voter healthy, 1 needed +a leader, and all voters healthy$/m,
    );
    expect(text).toContain('Not checked: ');
    expect(text).toMatch(/\d+ good, 0 warning, 0 error, 0 unknown$/);
  });

  test('names an etcd member with other content, and prints no control characters of its name', async () => {
    const agreeing = [node().nodeId, 'node-3'];
    const differing = ['node-2\u001b[2J'];
    const members = [...agreeing, ...differing].map((name) => ({ name }));
    const compared = { sinceMs: 1n, comparedMs: BigInt(Date.now()), agreeing };
    const reporting = {
      ...node(),
      status: { ...node().status, etcdContents: { state: { ...compared, differing } } },
    };
    const { context } = await createCluster({
      curator: {
        getClusterInfo: async () => ({ clusterName: 'prod', etcd: { ...ETCD, members } }),
        listNodes: async () => ({ nodes: [reporting] }),
      },
    });
    const found = (await doctor(context)).result.problems.find(({ code }) => code === 'doctor-etcd-content');
    expect(found?.cause).toMatch(/^the state etcd member of node-2.*has other content than n1 and node-3$/);
    expect(found?.cause).not.toContain('\u001b');
  });

  const silent = { ...node(), health: NodeHealth.TIMEOUT };
  const corrupt = {
    ...node(),
    status: { ...node().status, kubernetesEtcd: { ...ETCD, isCorrupt: true } },
  };
  const faults: readonly {
    readonly name: string;
    readonly faults: Faults;
    readonly want: string;
    readonly exit?: string;
  }[] = [
    {
      name: 'a silent node',
      faults: { curator: { listNodes: async () => ({ nodes: [silent] }) } },
      want: 'doctor-etcd-quorum',
    },
    { name: 'a wrong clock of the workstation', faults: { aheadMs: 3_600_000 }, want: 'doctor-clock' },
    {
      name: 'a lost quorum',
      faults: {
        curator: {
          ...{ getClusterInfo: cutOff, listNodes: cutOff, checkHealth: cutOff },
        },
      },
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'an etcd member that does not respond',
      faults: { streams: { getMetrics: async () => ({ text: '' }) } },
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'an API server that does not respond',
      faults: { kubernetes: () => new Error('closed') },
      want: 'doctor-api-server',
    },
    {
      name: 'a stopped kubelet',
      faults: { kubernetes: (url) => (url.includes('/proxy/') ? new Error('closed') : undefined) },
      want: 'doctor-kubelet',
    },
    {
      name: 'the alarm CORRUPT of the Kubernetes etcd',
      faults: { curator: { listNodes: async () => ({ nodes: [corrupt] }) } },
      want: 'doctor-etcd-corrupt',
    },
    { name: 'a missing CoreDNS', faults: { kubernetes: withoutDns }, want: 'doctor-dns' },
    {
      name: 'a PodDisruptionBudget that blocks drains',
      faults: {
        kubernetes: (url) =>
          url.startsWith('/apis/policy/')
            ? {
                items: [
                  {
                    metadata: { name: 'web', namespace: 'default' },
                    status: { expectedPods: 2, currentHealthy: 2, disruptionsAllowed: 0 },
                  },
                ],
              }
            : undefined,
      },
      want: 'doctor-budget',
      exit: 'warnings',
    },
    {
      name: 'a pod that started before the CA of API servers changed',
      faults: {
        kubernetes: (url) =>
          url === SERVERS_CAS
            ? { items: [serversCaOf('kube-system', '2026-11-01T10:00:01Z'), serversCaOf('kube-flannel', '')] }
            : undefined,
      },
      want: 'doctor-servers-ca',
      exit: 'warnings',
    },
    {
      name: 'a wrong clock of a worker',
      faults: {
        curator: {
          listNodes: async () => ({ nodes: [node(), workerNode()] }),
          checkHealth: async () => ({
            nodeId: NODE_ID,
            clocks: [{ nodeId: WORKER.record.nodeId, offsetMs: -420_000n }],
          }),
        },
        streams: { getMetrics: async ({ node: name }) => ({ text: name === 'n2' ? GROWTH : METRICS }) },
        kubernetes: withWorker,
      },
      want: 'doctor-clock',
    },
    { name: 'a join service that does not listen', faults: { joins: false }, want: 'doctor-join-service' },
    {
      name: 'a failed request for the list of joins',
      faults: { admission: { listJoins: () => Promise.reject(new Error('no')) } },
      want: 'doctor-join',
      exit: 'warnings',
    },
  ];
  test.each(faults)(
    'reports as the first problem: $name',
    async ({ faults: injected, want, exit: code = 'unhealthy' }) => {
      const { context } = await createCluster(injected);
      const { exit, result } = await doctor(context);
      expect(result.problems[0]?.code).toBe(want);
      expect(exit).toBe(code);
    },
  );

  test('without curators and API servers, judges the other facts and lists what it could not read', async () => {
    const { context } = await createCluster();
    for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
    const { exit, result } = await doctor(context);
    expect(exit).toBe('unhealthy');
    const grades = Map.groupBy(result.findings, ({ grade }) => grade);
    expect(grades.get('good')?.map(({ code }) => code)).toContain('doctor-credentials');
    expect(grades.get('unknown')?.map(({ code }) => code)).toContain('doctor-certificate');
    expect(grades.get('error')?.map(({ code }) => code)).toContain('doctor-curator');
    // The reason for most of them is the same, and is printed once.
    const record = context.host.records.find(({ kind }) => kind === 'result');
    const causes = (record?.kind === 'result' ? record.text : '').match(/^unknown: .*(?= \[)/gm) ?? [];
    expect(causes.length).toBeGreaterThan(0);
    expect(causes).toEqual([...new Set(causes)]);
    const text = record?.kind === 'result' ? record.text : '';
    expect(text).toMatch(/^unknown: .* \[\d+ checks: doctor-/m);
    // As docs/doctor.md says, problems that follow from an error come last.
    const heads = text.match(/^(?:error|warning|unknown): .*/gm) ?? [];
    const follows = heads.map((head) => head.includes('probably follows from'));
    expect(follows).toEqual(follows.toSorted());
    expect(follows).toContain(true);
  });

  test('with the name of a worker, still measures the control planes, and asks no other kubelet', async () => {
    const worker = workerNode();
    const asked: string[] = [];
    const { context } = await createCluster({
      curator: { listNodes: async () => ({ nodes: [node(), worker] }) },
      streams: { getMetrics: async ({ node: name }) => ({ text: name === 'n2' ? GROWTH : METRICS }) },
      kubernetes: (url) => {
        if (url.includes('/proxy/')) asked.push(url);
        return withWorker(url);
      },
    });
    const { exit, result } = await doctor(context, 'n2');
    expect(result.findings.filter(({ grade }) => grade !== 'good')).toEqual([]);
    expect(exit).toBe('ok');
    expect(asked).toEqual(['/api/v1/nodes/n2/proxy/stats/summary']);
  });

  test('refuses a node that the cluster does not have', async () => {
    const { context } = await createCluster();
    await expect(doctor(context, 'n9')).rejects.toMatchObject({ code: 'doctor-node-unknown' });
  });

  test('judges saved facts in the same way, and they contain no secret', async () => {
    const { context, files } = await createCluster({ kubernetes: withoutDns });
    const exit = await runDoctor(context, { ...QUICK, saveFacts: '/owner/facts.json' }, []);
    const live = context.host.answered;
    const offline = contextOf(files, '/elsewhere');
    expect(await runDoctor(offline, { facts: '/owner/facts.json' }, [])).toBe(exit);
    expect(offline.host.answered).toEqual(live);
    const bytes = (await files.read('/owner/facts.json', MAX_FACTS_BYTES)) ?? new Uint8Array();
    expect(parseFacts(bytes)).toMatchObject({
      clusterName: 'prod',
      evidence: [{ node: 'n1', answer: { value: { variant: 'tpm', isAccepted: true } } }],
    });
    expect(Buffer.from(bytes).toString()).not.toMatch(/PRIVATE KEY|CERTIFICATE/);
  });

  test('replaces facts that were saved earlier', async () => {
    const { context, files } = await createCluster();
    const path = '/owner/facts.json';
    await files.writeAtomic(path, JSON.stringify({ version: 0, takenMs: 1, clusterId: 'c' }));
    await runDoctor(context, { ...QUICK, saveFacts: path }, []);
    const bytes = (await files.read(path, MAX_FACTS_BYTES)) ?? new Uint8Array();
    expect(parseFacts(bytes)).toMatchObject({ clusterName: 'prod' });
  });

  test('refuses a file of facts that does not exist', async () => {
    const { context } = await createCluster();
    await expect(runDoctor(context, { facts: '/none' }, [])).rejects.toMatchObject({
      code: 'doctor-facts-missing',
    });
  });
});

describe('runDoctor() about evidence', () => {
  const ofEvidence = ({ findings }: Result) => findings.filter(({ code }) => code === 'doctor-evidence');

  test('accepts fresh evidence of the machine on record, and saves nothing about the machine', async () => {
    const { context, files } = await createCluster();
    const { result } = await doctor(context);
    expect(ofEvidence(result)).toMatchObject([
      { subject: 'evidence of n1', grade: 'good', figure: 'TPM evidence accepted, software not attested' },
    ]);
    expect(await files.list('/owner/machines')).toEqual([]);
  });

  test('names the register that differs from its reference value', async () => {
    const { context, files } = await createCluster();
    await files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration({ pcr4: 'cd'.repeat(32) }));
    const { exit, result } = await doctor(context);
    expect(result.problems).toMatchObject([
      {
        ...{ code: 'doctor-evidence', grade: 'error', node: 'n1' },
        cause: expect.stringMatching(
          /attestation-register-mismatch: pcr4 differs from the reference/,
        ) as unknown,
        fix: expect.stringMatching(/^Run `cluster verify n1`/) as unknown,
      },
    ]);
    expect(exit).toBe('unhealthy');
  });

  test('refuses the evidence of another machine, and evidence that was made before', async () => {
    const answers = [
      (clusterId: string, nonce: Uint8Array) =>
        evidenceAnswer({ ...MACHINE, key: WORKER.key }, { clusterId, nonce }),
      (clusterId: string) => evidenceAnswer(MACHINE, { clusterId, nonce: new Uint8Array(32) }),
    ];
    for (const answer of answers) {
      const cluster: Awaited<ReturnType<typeof createCluster>> = await createCluster({
        streams: { getEvidence: async ({ nonce }) => answer(cluster.clusterId, nonce) },
      });
      const { result } = await doctor(cluster.context);
      expect(result.problems).toMatchObject([{ code: 'doctor-evidence', grade: 'error' }]);
      await close();
    }
  });

  test('says that it does not know if the node does not answer, or if the known machines cannot be read', async () => {
    const refused = () => Promise.reject(new Error('no'));
    for (const each of [{ streams: { getEvidence: refused } }, {}]) {
      const { context, files } = await createCluster(each);
      if (!('streams' in each)) await files.makeDirectory('/owner/machines');
      if (!('streams' in each)) await files.writeAtomic('/owner/machines/n7.json', '{');
      const { exit, result } = await doctor(context);
      expect(result.problems).toMatchObject([{ code: 'doctor-evidence', grade: 'unknown', node: 'n1' }]);
      expect(exit).toBe('warnings');
      await close();
    }
  });

  test('waits for no node longer than 20 s', async () => {
    /** The time limit of a node passes at once. */
    class HastyClock extends HarnessClock {
      override sleep(ms: number, signal: AbortSignal): Promise<void> {
        return super.sleep(ms === 20_000 ? 200 : ms, signal);
      }
    }
    const getEvidence = (_: unknown, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<never>((__, reject) =>
        signal.addEventListener('abort', () => reject(new Error('aborted'))),
      );
    const { context } = await createCluster({ streams: { getEvidence } }, new HastyClock());
    const { result } = await doctor(context);
    expect(result.problems).toMatchObject([
      { code: 'doctor-evidence', grade: 'unknown', cause: 'evidence of n1: timed out after 20s' },
    ]);
  });

  test('asks only the nodes that it is about', async () => {
    const asked: string[] = [];
    const other = { ...node(), ...WORKER.record, roles: [NodeRole.KUBERNETES_WORKER] };
    const cluster: Awaited<ReturnType<typeof createCluster>> = await createCluster({
      curator: { listNodes: async () => ({ nodes: [node(), other] }) },
      streams: {
        getEvidence: async ({ node: of, nonce }) => {
          asked.push(of);
          return evidenceAnswer(MACHINE, { clusterId: cluster.clusterId, nonce });
        },
      },
      kubernetes: withWorker,
    });
    await doctor(cluster.context, 'n1');
    expect(asked).toEqual([NODE_ID]);
  });
});

function cutOff(): Promise<never> {
  return Promise.reject(new EtcdError('etcd-unavailable', 'reading the record of the cluster'));
}

function withoutDns(url: string): unknown {
  if (url !== '/api/v1/pods') return undefined;
  const { items } = healthyKubernetes(url) as {
    readonly items: readonly { readonly metadata: { readonly name: string } }[];
  };
  return { items: items.filter(({ metadata }) => !metadata.name.startsWith('coredns')) };
}

/** The healthy responses, with each object of node n1 a second time for n2. */
function withWorker(url: string): unknown {
  const answer = healthyKubernetes(url.replace('/n2/', '/n1/'));
  if (url !== '/api/v1/nodes' && url !== '/api/v1/pods') return answer;
  const { items } = answer as { readonly items: readonly unknown[] };
  return {
    items: [...items, ...(JSON.parse(JSON.stringify(items).replaceAll('"n1"', '"n2"')) as unknown[])],
  };
}

describe('runDoctor() with failures in Kubernetes', () => {
  const items = (...all: unknown[]) => ({ items: all });
  const waiting = (name: string, reason: string) => ({
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [{ name, restartCount: 3, state: { waiting: { reason } } }],
  });
  const causes = async (answers: Readonly<Record<string, unknown>>) => {
    const kubernetes = (url: string) => answers[url] ?? answers[url.replace(/[?].*/, '')];
    const { context } = await createCluster({ kubernetes });
    const { result } = await doctor(context);
    return result.problems.map(({ code, cause }) => `${code}: ${cause}`);
  };

  test('names the service of a webhook that has no ready endpoint', async () => {
    const hook = (policy: string) => ({
      name: `${policy}.example.com`,
      failurePolicy: policy,
      clientConfig: { service: { namespace: 'policy', name: 'hook' } },
    });
    const elsewhere = { name: 'far.example.com', clientConfig: { url: 'https://192.0.2.1' } };
    const found = await causes({
      '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations': items({
        metadata: { name: 'policy' },
        webhooks: [hook('Fail'), hook('Ignore'), elsewhere],
      }),
      '/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices': items({
        endpoints: [{ conditions: { ready: false } }],
      }),
    });
    expect(found).toEqual([
      expect.stringMatching(/^doctor-webhook: webhook Fail[.]example[.]com .*policy\/hook.* refuse every/),
      expect.stringMatching(/^doctor-webhook: webhook Ignore[.]example[.]com .*policy\/hook/),
    ]);
  });

  test('asks once for a service of several webhooks, and does not judge a name outside of the cluster', async () => {
    const hook = (service: string) => ({ clientConfig: { service: { namespace: 'policy', name: service } } });
    const asked: string[] = [];
    const { context } = await createCluster({
      kubernetes: (url) => {
        asked.push(url);
        if (url.endsWith('/validatingwebhookconfigurations'))
          return items({ metadata: { name: 'p' }, webhooks: [hook('hook'), hook('hook'), hook('far')] });
        if (url.endsWith('/services/far')) return { spec: { type: 'ExternalName' } };
        if (url.endsWith('/services/hook')) return new FakeResponse(404, '{}');
        return url.includes('/endpointslices') ? items() : undefined;
      },
    });
    const { result } = await doctor(context);
    expect(result.problems.map(({ subject }) => subject)).toEqual(['webhook ', 'webhook ']);
    expect(asked.filter((url) => url.endsWith('%2Fservice-name%3Dhook'))).toHaveLength(1);
  });

  test('gives a pod with scheduling gates the time of a pod that starts', async () => {
    const pod = (reason: string) => ({
      metadata: {
        namespace: 'shop',
        name: reason,
        creationTimestamp: new Date(Date.now() - 60_000).toISOString(),
      },
      status: { conditions: [{ type: 'PodScheduled', status: 'False', reason }] },
    });
    const found = await causes({ '/api/v1/pods': items(pod('SchedulingGated'), pod('Unschedulable')) });
    expect(found.filter((cause) => cause.startsWith('doctor-pods'))).toEqual([
      expect.stringContaining('pod shop/Unschedulable '),
    ]);
  });

  test('counts an endpoint without a condition as ready', async () => {
    const found = await causes({
      '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations': items({
        metadata: { name: 'policy' },
        webhooks: [{ name: 'a', clientConfig: { service: { namespace: 'policy', name: 'hook' } } }],
      }),
      '/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices': items(
        { endpoints: [{}] },
        { endpoints: null },
      ),
    });
    expect(found).toEqual([]);
  });

  test('names API services, namespaces and deployments that Kubernetes reports as failing', async () => {
    const failed = (type: string, status: string, reason: string, message: string) => ({
      conditions: [{ type, status, reason, message }],
    });
    const found = await causes({
      '/apis/apiregistration.k8s.io/v1/apiservices': items(
        { metadata: { name: 'v1.apps' }, status: failed('Available', 'True', 'Local', '') },
        {
          metadata: { name: 'v1beta1.metrics.k8s.io' },
          status: failed('Available', 'False', 'MissingEndpoints', 'no endpoints for kube-system/metrics'),
        },
      ),
      '/api/v1/namespaces': items(
        { metadata: { name: 'default' } },
        {
          metadata: { name: 'old', deletionTimestamp: '2026-11-01T10:00:00Z' },
          status: failed(
            'NamespaceFinalizersRemaining',
            'True',
            'SomeFinalizersRemain',
            'has example.com/x in 1 resource',
          ),
        },
      ),
      '/apis/apps/v1/deployments': items({
        metadata: { namespace: 'shop', name: 'web' },
        spec: { replicas: 3 },
        status: { replicas: 1, ...failed('ReplicaFailure', 'True', 'FailedCreate', 'exceeded quota: team') },
      }),
    });
    expect(found).toEqual([
      expect.stringMatching(/^doctor-api-service: .*metrics.*no endpoints/),
      expect.stringMatching(/^doctor-deployment: .*shop\/web \(1 of 3\): FailedCreate: exceeded quota/),
      expect.stringMatching(/^doctor-namespace: namespace old .*example[.]com\/x/),
    ]);
  });

  test('lets an operator without rights to these objects judge the rest', async () => {
    const refused = new FakeResponse(403, '{"message":"forbidden"}');
    const { context } = await createCluster({
      kubernetes: (url) => (/webhookconfigurations|deployments|secrets/.test(url) ? refused : undefined),
    });
    const { result } = await doctor(context);
    expect(result.problems.map(({ code, grade }) => `${code} ${grade}`)).toEqual([
      'doctor-webhook unknown',
      'doctor-deployment unknown',
    ]);
  });

  test('says why a pod fails: the newest warning about it, or the last words of a container of the cluster', async () => {
    const warning = (lastTimestamp: string, message: string) => ({
      reason: 'Failed',
      message,
      lastTimestamp,
    });
    const found = await causes({
      '/api/v1/pods': items(
        {
          metadata: { namespace: 'kube-system', name: 'coredns-1', labels: { 'k8s-app': 'kube-dns' } },
          spec: { nodeName: 'n1' },
          status: waiting('coredns', 'CrashLoopBackOff'),
        },
        {
          metadata: { namespace: 'shop', name: 'web', creationTimestamp: '2026-11-01T10:00:00Z' },
          status: waiting('web', 'ImagePullBackOff'),
        },
        {
          metadata: { namespace: 'kube-system', name: 'proxy-1' },
          status: waiting('proxy', 'CrashLoopBackOff'),
        },
        {
          metadata: { namespace: 'shop', name: 'cart' },
          status: waiting('cart', 'CrashLoopBackOff'),
        },
      ),
      '/api/v1/namespaces/kube-system/pods/coredns-1/log': new FakeResponse(
        200,
        'Corefile:3 - Error during parsing: Unknown directive\nstopping\n',
      ),
      '/api/v1/namespaces/shop/pods/cart/log': new FakeResponse(200, 'Error: password=secret is wrong'),
      '/api/v1/namespaces/kube-system/pods/proxy-1/log': new FakeResponse(
        200,
        'unable to retrieve container logs for containerd://0',
      ),
      '/api/v1/namespaces/kube-system/events': items(),
      '/api/v1/namespaces/shop/events': items(
        warning('2026-11-01T10:00:02Z', 'no such host'),
        warning('2026-11-01T10:00:01Z', 'first try'),
        warning('2026-11-01T09:00:00Z', 'of an earlier pod'),
      ),
    });
    expect(found).toContainEqual(
      expect.stringMatching(/^doctor-dns: .*CrashLoopBackOff.*Unknown directive$/),
    );
    expect(found).toContainEqual(
      expect.stringMatching(/^doctor-pods: pod shop\/web .*ImagePullBackOff.*no such host/),
    );
    expect(found).toContainEqual(expect.stringMatching(/pod kube-system\/proxy-1 .*3 restarts$/));
    expect(found.join()).not.toContain('secret');
  });
});

/** A schedule that an owner signed now. */
function scheduleBytes(
  target: { readonly copyTo?: string; readonly copyToStore?: CopyStore } = {},
): Uint8Array {
  const keyPem = generateEd25519Key();
  const issuedMs = Date.now();
  const content = {
    ...{
      clusterId: 'c',
      epoch: 1,
      nodeIds: [`node-${'0'.repeat(32)}`],
      everyMinutes: 60,
      keep: 1,
      ...target,
    },
    ...{ recipients: [recoveryKeyOfOwner(keyPem).recipient], issuedMs, endsMs: issuedMs + 365 * DAY_MS },
  };
  return encodeBackupCertificate(signBackupCertificate(content, { keyPem, vouchers: [] }));
}
