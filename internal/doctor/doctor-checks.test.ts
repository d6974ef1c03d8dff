import { describe, expect, test } from '@jest/globals';
import type { ClusterFacts, FactsPart, NodeFacts } from './cluster-facts.ts';
import { diagnose, problemsFrom, type Grade } from './diagnose.ts';
import { DOCTOR_CHECKS } from './doctor-checks.ts';
import type { DoctorErrorCode } from './errors.ts';
import { factsWithRecords, fakeEtcd, fakeFacts, fakeMember, fakeNode, NOW_MS } from './fake-facts.ts';

const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000];
const MIB = 1024 ** 2;
const AWAY = { ok: false, error: 'dialing 192.0.2.2: timed out', codes: ['rpc-unreachable'] } as const;

function away(...codes: string[]): FactsPart<never> & { codes: string[]; ok: false } {
  return { ...AWAY, codes };
}

/** Facts in which one node of the records differs. */
function withNode(name: string, changes: Partial<NodeFacts>): ClusterFacts {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((each) => fakeNode(each, each === name ? changes : {}));
  return factsWithRecords({ nodes });
}

type Kubernetes = Extract<ClusterFacts['kubernetes'], { ok: true }>['value'];

function withKubernetes(change: (value: Kubernetes) => Partial<Kubernetes>): ClusterFacts {
  const facts = fakeFacts();
  if (!facts.kubernetes.ok) throw new Error('fake facts have Kubernetes');
  const { value } = facts.kubernetes;
  return { ...facts, kubernetes: { ok: true, value: { ...value, ...change(value) } } };
}

function withMetrics(node: string, change: object): ClusterFacts {
  const facts = fakeFacts();
  const metrics = facts.metrics.map((each) =>
    each.node === node && each.answer.ok
      ? { node, answer: { ok: true as const, value: { ...each.answer.value, ...change } } }
      : each,
  );
  return { ...facts, metrics };
}

function withDisk(change: object): ClusterFacts {
  const facts = fakeFacts();
  const kubelets = facts.kubelets.map((each) =>
    each.node === 'n4' && each.answer.ok
      ? {
          node: 'n4',
          answer: {
            ok: true as const,
            value: { fileSystems: each.answer.value.fileSystems.map((of) => ({ ...of, ...change })) },
          },
        }
      : each,
  );
  return { ...facts, kubelets };
}

function withEtcd(changes: Parameters<typeof fakeEtcd>[0]): ClusterFacts {
  return factsWithRecords({ stateEtcd: fakeEtcd(changes) });
}

const withDirectories = (...protections: string[]): ClusterFacts =>
  withNode('n2', { directories: protections.map((protection, at) => ({ path: `/d${at}`, protection })) });
const clocks = (ms: number): ClusterFacts =>
  fakeFacts({ clocks: [{ node: 'n1', offset: { ok: true, value: { ms } } }] });
const certificates = (leftMs: number, name = '/etc/x.crt'): ClusterFacts =>
  withNode('n2', { certificates: [{ name, notAfterMs: NOW_MS + leftMs }] });
const learner = (ageMs: number): ClusterFacts => ({
  ...factsWithRecords({
    stateEtcd: fakeEtcd({ members: [...fakeEtcd().members, { name: 'id-n4', isLearner: true }] }),
    nodes: [fakeNode('n1'), fakeNode('n2'), fakeNode('n3'), fakeNode('n4', { createdMs: NOW_MS - ageMs })],
  }),
});
const pods = (ageMs: number): ClusterFacts =>
  withKubernetes(({ pods: all }) => ({
    pods: all.map((pod) =>
      pod.name === 'web-1' ? { ...pod, isReady: false, why: 'crash', createdMs: NOW_MS - ageMs } : pod,
    ),
  }));
const withoutReady = (prefix: string): ClusterFacts =>
  withKubernetes(({ pods: all }) => ({
    pods: all.map((pod) => (pod.name.startsWith(prefix) ? { ...pod, isReady: false, why: 'crash' } : pod)),
  }));
const budget = (changes: object): ClusterFacts =>
  withKubernetes(({ budgets }) => ({ budgets: budgets.map((each) => ({ ...each, ...changes })) }));
const keys = (phaseMs: number, more: object = {}): ClusterFacts =>
  fakeFacts({
    keys: {
      ok: true,
      value: {
        ...{ generation: 2, phase: 'distribute', isDone: false, phaseSinceMs: NOW_MS - phaseMs },
        awaited: ['n2 (it is off)'],
        ...more,
      },
    },
  });
/** The CA of namespace "default" changed this long ago. The programs of pods have run for a day. */
const serversCa = (changedAgoMs: number, pod: object = {}): ClusterFacts =>
  withKubernetes(({ pods: all }) => ({
    pods: all.map((each) => (each.name === 'web-1' ? { ...each, ...pod } : each)),
    serversCas: [{ namespace: 'default', changedMs: NOW_MS - changedAgoMs }],
  }));
const refusedJoin = (agoMs: number, state = 'refused'): ClusterFacts =>
  fakeFacts({
    joins: {
      ok: true,
      value: [{ name: 'n9', state, code: 'trust-x', message: 'other PCR', lastSeenMs: NOW_MS - agoMs }],
    },
  });
type Backups = Extract<ClusterFacts['backups'], { ok: true }>['value'];

function withBackups(change: (value: Backups) => Partial<Backups>): ClusterFacts {
  const facts = fakeFacts();
  if (facts.backups?.ok !== true) throw new Error('fake facts have backups');
  const { value } = facts.backups;
  return { ...facts, backups: { ok: true, value: { ...value, ...change(value) } } };
}
/** The schedule says every six hours. */
const backups = (ageMs: number): ClusterFacts => withBackups(() => ({ newestProvedMs: NOW_MS - ageMs }));
const unprovedBackups = (scheduledMs: number): ClusterFacts =>
  withBackups(({ schedule }) => ({
    newestProvedMs: undefined,
    schedule: schedule && { ...schedule, issuedMs: NOW_MS - scheduledMs },
  }));
const failedBackup = (): ClusterFacts =>
  withBackups(() => ({
    failure: { node: 'n1', timeMs: NOW_MS, code: 'backup-node-space', message: 'full' },
  }));
const failedCopy = (): ClusterFacts =>
  withBackups(() => ({
    copies: [
      {
        ...{ node: 'n1', count: 2 },
        failure: { node: 'n1', timeMs: NOW_MS, code: 'backup-node-copy-target', message: 'not mounted' },
      },
    ],
  }));
const silentCopies = (issuedMs: number): ClusterFacts =>
  withBackups(({ schedule, copies }) => ({
    ...{ schedule: schedule && { ...schedule, issuedMs: NOW_MS - issuedMs } },
    copies: copies?.filter(({ node }) => node !== 'n2'),
  }));
const scheduleEnds = (leftMs: number): ClusterFacts =>
  withBackups(({ schedule }) => ({ schedule: schedule && { ...schedule, endsMs: NOW_MS + leftMs } }));
const scheduleWithout = (id: string): ClusterFacts =>
  withBackups(({ schedule }) => ({
    schedule: schedule && { ...schedule, nodeIds: schedule.nodeIds.filter((each) => each !== id) },
  }));
const unscheduled = (): ClusterFacts => fakeFacts({ backups: { ok: true, value: {} } });
const documents = (leftMs: number, kind = 'policy'): ClusterFacts => {
  const signed = { kind: 'settings', endsMs: NOW_MS + 3000 * DAY_MS };
  return fakeFacts({ documents: { ok: true, value: [{ kind, endsMs: NOW_MS + leftMs }, signed] } });
};
const unsignedSettings = (): ClusterFacts =>
  fakeFacts({ documents: { ok: true, value: [{ kind: 'policy', endsMs: NOW_MS + 300 * DAY_MS }] } });
const collateral = (leftMs: number): ClusterFacts =>
  fakeFacts({ collateral: { ok: true, value: [{ what: 'CRL of AMD', expiresMs: NOW_MS + leftMs }] } });
const credentials = (leftMs: number): ClusterFacts =>
  fakeFacts({ credentials: { certificateMs: NOW_MS + leftMs, kubeconfigMs: NOW_MS + 300 * DAY_MS } });
const kubelet = (error: string, ...codes: string[]): ClusterFacts =>
  fakeFacts({ kubelets: [{ node: 'n4', answer: { ok: false, error, codes } }] });

/** The worst grade that the check gives, and the node and the cause of the first finding of this grade. */
function judged(facts: ClusterFacts, code: string) {
  const grades: readonly Grade[] = ['error', 'warning', 'unknown', 'good'];
  const own = diagnose(facts).filter((each) => each.code === code);
  return own.toSorted((a, b) => grades.indexOf(a.grade) - grades.indexOf(b.grade))[0];
}

interface Row {
  readonly code: DoctorErrorCode;
  readonly name: string;
  readonly facts: () => ClusterFacts;
  readonly want: Grade;
  readonly node?: string;
}

const row = (
  code: DoctorErrorCode,
  name: string,
  facts: () => ClusterFacts,
  want: Grade,
  node?: string,
): Row => {
  return { code, name, facts, want, ...(node !== undefined && { node }) };
};

const ROWS: readonly Row[] = [
  row('doctor-clock', 'a minute ahead', () => clocks(MINUTE_MS), 'good'),
  row('doctor-clock', 'more than a minute ahead', () => clocks(MINUTE_MS + 1), 'warning'),
  row('doctor-clock', 'five minutes behind', () => clocks(-5 * MINUTE_MS), 'warning'),
  row('doctor-clock', 'more than five minutes behind', () => clocks(-5 * MINUTE_MS - 1), 'error'),
  row('doctor-servers-ca', 'started after the CA changed', () => serversCa(DAY_MS), 'good'),
  row('doctor-servers-ca', 'a pod started before the CA changed', () => serversCa(DAY_MS - 1), 'warning'),
  row(
    'doctor-servers-ca',
    'an older pod that does not mount the CA',
    () => serversCa(HOUR_MS, { serversCaReadMs: undefined }),
    'good',
  ),
  row(
    'doctor-servers-ca',
    'an older pod that was restarted',
    () => serversCa(HOUR_MS, { serversCaReadMs: NOW_MS - MINUTE_MS }),
    'good',
  ),
  row(
    'doctor-servers-ca',
    'facts of an earlier version',
    () => withKubernetes(() => ({ serversCas: undefined })),
    'unknown',
  ),
  row('doctor-clock', 'no control plane', () => fakeFacts({ clocks: [] }), 'unknown'),
  row('doctor-credentials', 'more than a week left', () => credentials(7 * DAY_MS + 1), 'good'),
  row('doctor-credentials', 'a week left', () => credentials(7 * DAY_MS), 'warning'),
  row('doctor-credentials', 'a millisecond left', () => credentials(1), 'warning'),
  row('doctor-credentials', 'expired', () => credentials(0), 'error'),
  row('doctor-etcd-full', 'full', () => withEtcd({ isFull: true }), 'error'),
  row('doctor-etcd-quorum', 'no leader', () => withEtcd({ hasLeader: false }), 'error'),
  row('doctor-etcd-quorum', 'one voter is silent', () => withNode('n2', { health: 'silent' }), 'warning'),
  row('doctor-etcd-quorum', 'a worker is silent', () => withNode('n4', { health: 'silent' }), 'good'),
  row(
    'doctor-etcd-quorum',
    'one member does not respond',
    () => withMetrics('n2', { stateEtcd: undefined }),
    'warning',
  ),
  row(
    'doctor-etcd-quorum',
    'two of three voters are silent',
    () =>
      factsWithRecords({
        nodes: [fakeNode('n1'), fakeNode('n2', { health: 'silent' }), fakeNode('n3', { health: 'silent' })],
      }),
    'error',
  ),
  row(
    'doctor-etcd-quorum',
    'curators report a lost quorum',
    () => fakeFacts({ records: away('cluster-quorum-lost') }),
    'error',
  ),
  row(
    'doctor-etcd-quorum',
    'no curator responds',
    () => fakeFacts({ records: away('cluster-curator-unreachable') }),
    'unknown',
  ),
  row('doctor-node-silent', 'no heartbeats', () => withNode('n4', { health: 'silent' }), 'error', 'n4'),
  row(
    'doctor-node-silent',
    'never a heartbeat',
    () => withNode('n4', { health: 'unknown' }),
    'warning',
    'n4',
  ),
  row(
    'doctor-node-silent',
    'not a member',
    () => withNode('n4', { health: 'unknown', state: 'new' }),
    'good',
  ),
  row('doctor-disk-space', '15% free', () => withDisk({ capacityBytes: 100, availableBytes: 15 }), 'good'),
  row(
    'doctor-disk-space',
    '14% free',
    () => withDisk({ capacityBytes: 100, availableBytes: 14 }),
    'warning',
    'n4',
  ),
  row('doctor-disk-space', '10% free', () => withDisk({ capacityBytes: 100, availableBytes: 10 }), 'warning'),
  row(
    'doctor-disk-space',
    '9% free',
    () => withDisk({ capacityBytes: 100, availableBytes: 9 }),
    'error',
    'n4',
  ),
  row('doctor-disk-space', 'not measured', () => kubelet('refused', 'kube-refused'), 'unknown', 'n4'),
  row('doctor-disk-clear', 'all in the clear', () => withDirectories('clear', 'clear'), 'good'),
  row('doctor-disk-clear', 'encrypted and in memory', () => withDirectories('encrypted', 'memory'), 'good'),
  row('doctor-disk-clear', 'one is not', () => withDirectories('encrypted', 'clear'), 'error', 'n2'),
  row(
    'doctor-disk-clear',
    'a kind of disk encryption that only a newer agent knows',
    () => withDirectories('encrypted', 'other'),
    'error',
  ),
  row('doctor-disk-clear', 'not reported', () => withDirectories(), 'unknown', 'n2'),
  row('doctor-disk-inodes', '10% free', () => withDisk({ inodes: 100, inodesFree: 10 }), 'good'),
  row('doctor-disk-inodes', '9% free', () => withDisk({ inodes: 100, inodesFree: 9 }), 'warning', 'n4'),
  row('doctor-disk-inodes', '5% free', () => withDisk({ inodes: 100, inodesFree: 5 }), 'warning'),
  row('doctor-disk-inodes', '4% free', () => withDisk({ inodes: 100, inodesFree: 4 }), 'error', 'n4'),
  row('doctor-disk-inodes', 'no fixed number', () => withDisk({ inodes: 0, inodesFree: 0 }), 'good'),
  row(
    'doctor-etcd-member',
    'does not respond',
    () => withMetrics('n2', { kubernetesEtcd: undefined }),
    'error',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'no leader',
    () => withMetrics('n2', { stateEtcd: fakeMember({ hasLeader: false }) }),
    'error',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'no metrics',
    () => fakeFacts({ metrics: [{ node: 'n2', answer: away() }] }),
    'unknown',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'a worker has none',
    () => fakeFacts({ metrics: [{ node: 'n4', answer: { ok: true, value: { balancer: [] } } }] }),
    'good',
  ),
  row(
    'doctor-curator',
    'does not serve',
    () => fakeFacts({ curators: [{ node: 'n2', answer: away() }] }),
    'error',
    'n2',
  ),
  row(
    'doctor-api-server',
    'does not serve',
    () => fakeFacts({ apiServers: [{ node: 'n2', answer: away() }] }),
    'error',
    'n2',
  ),
  row('doctor-api-server', 'none is known', () => fakeFacts({ apiServers: [] }), 'unknown'),
  row(
    'doctor-control-plane',
    'not ready',
    () => withNode('n2', { componentsNotReady: [{ name: 'kube-scheduler', why: 'crash' }] }),
    'error',
    'n2',
  ),
  row(
    'doctor-control-plane',
    'the report of a silent node does not count',
    () =>
      withNode('n2', { health: 'silent', componentsNotReady: [{ name: 'kube-scheduler', why: 'crash' }] }),
    'good',
  ),
  row('doctor-kubernetes', 'not read', () => fakeFacts({ kubernetes: away('kube-unreachable') }), 'error'),
  row(
    'doctor-kubernetes',
    'an operator without a kubeconfig',
    () => fakeFacts({ kubernetes: away('cluster-no-kubeconfig') }),
    'unknown',
  ),
  row(
    'doctor-kubelet',
    'not ready',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, isReady: node.name !== 'n2', why: 'PLEG' })),
      })),
    'error',
    'n2',
  ),
  row(
    'doctor-kubelet',
    'not registered',
    () => withKubernetes(({ nodes }) => ({ nodes: nodes.slice(0, 3) })),
    'error',
    'n4',
  ),
  row('doctor-kubelet', 'does not respond', () => kubelet('timed out', 'kube-unreachable'), 'error', 'n4'),
  row('doctor-kubelet', 'may not be asked', () => kubelet('refused', 'kube-refused'), 'good'),
  row('doctor-kubelet', 'Kubernetes not read', () => fakeFacts({ kubernetes: away() }), 'unknown'),
  row(
    'doctor-node-pressure',
    'disk pressure',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, pressures: node.name === 'n3' ? ['DiskPressure'] : [] })),
      })),
    'error',
    'n3',
  ),
  row('doctor-network', 'not ready on one node', () => withoutReady('flannel-n3'), 'error', 'n3'),
  row(
    'doctor-network',
    'installed, and no pods',
    () =>
      withKubernetes(({ pods: all }) => ({
        pods: all.filter(({ namespace }) => namespace !== 'kube-flannel'),
      })),
    'error',
    'n1',
  ),
  row(
    'doctor-network',
    'another network',
    () => ({
      ...withKubernetes(({ pods: all }) => ({
        pods: all.filter(({ namespace }) => namespace !== 'kube-flannel'),
      })),
      charts: [],
    }),
    'good',
  ),
  row('doctor-proxy', 'not ready on one node', () => withoutReady('kube-proxy-n2'), 'error', 'n2'),
  row('doctor-dns', 'not ready', () => withoutReady('coredns'), 'error'),
  row(
    'doctor-dns',
    'scaled to 0',
    () => withKubernetes(({ pods: all }) => ({ pods: all.filter(({ app }) => app !== 'kube-dns') })),
    'error',
  ),
  row(
    'doctor-balancer',
    'one API server silent',
    () => withMetrics('n4', { balancer: [{ server: '192.0.2.3:6443', verdict: 'silent' }] }),
    'warning',
    'n3',
  ),
  row(
    'doctor-node-error',
    'an error',
    () => withNode('n2', { lastError: 'kubelet-x: crash' }),
    'error',
    'n2',
  ),
  row(
    'doctor-agent',
    'a part has ended',
    () => withNode('n2', { deadRunnables: ['root.roleserve'] }),
    'warning',
    'n2',
  ),
  row('doctor-certificate', 'more than a day left', () => certificates(DAY_MS + 1), 'good'),
  row('doctor-certificate', 'a day left', () => certificates(DAY_MS), 'warning', 'n2'),
  row('doctor-certificate', 'expired', () => certificates(0), 'error', 'n2'),
  row('doctor-ca', 'more than 90 days left', () => certificates(90 * DAY_MS + 1, '/x/ca.crt'), 'good'),
  row('doctor-ca', '90 days left', () => certificates(90 * DAY_MS, '/x/front-proxy-ca.crt'), 'warning', 'n2'),
  row('doctor-ca', 'expired', () => certificates(-1, '/x/ca.crt'), 'error', 'n2'),
  row('doctor-keys', 'an hour in a phase', () => keys(HOUR_MS), 'good'),
  row('doctor-keys', 'more than an hour in a phase', () => keys(HOUR_MS + 1), 'warning'),
  row('doctor-keys', 'new keys that an owner must sign', () => keys(0, { needsOwner: true }), 'warning'),
  row('doctor-keys', 'signed', () => keys(0, { isDone: true, needsOwner: false }), 'good'),
  row(
    'doctor-keys',
    'that no owner has signed',
    () => keys(0, { isDone: true, needsOwner: true }),
    'warning',
  ),
  row(
    'doctor-backup',
    'the newest proved backup is two periods and ten minutes old',
    () => backups(12 * HOUR_MS + 10 * MINUTE_MS),
    'good',
  ),
  row(
    'doctor-backup',
    'the newest proved backup is older than that',
    () => backups(12 * HOUR_MS + 10 * MINUTE_MS + 1),
    'warning',
  ),
  row('doctor-backup', 'one of more than four periods', () => backups(25 * HOUR_MS), 'error'),
  row('doctor-backup', 'none yet of a new schedule', () => unprovedBackups(HOUR_MS), 'good'),
  row('doctor-backup', 'no backup was proved', () => unprovedBackups(DAY_MS), 'warning'),
  row('doctor-backup', 'no backup was proved for days', () => unprovedBackups(2 * DAY_MS), 'error'),
  row('doctor-backup', 'a failed attempt', failedBackup, 'warning'),
  row('doctor-backup', 'no schedule', unscheduled, 'good'),
  row('doctor-backup-schedule', 'more than 30 days left', () => scheduleEnds(30 * DAY_MS + 1), 'good'),
  row('doctor-backup-schedule', '30 days left', () => scheduleEnds(30 * DAY_MS), 'warning'),
  row('doctor-backup-schedule', 'ended', () => scheduleEnds(0), 'error'),
  row('doctor-backup-schedule', 'without a control plane', () => scheduleWithout('id-n3'), 'warning'),
  row('doctor-backup-schedule', 'none', unscheduled, 'good'),
  row('doctor-backup-copies', 'a directory that is not mounted', failedCopy, 'error'),
  row('doctor-backup-copies', 'no directory', unscheduled, 'good'),
  row('doctor-backup-copies', 'no report, new schedule', () => silentCopies(10 * MINUTE_MS), 'good'),
  row('doctor-backup-copies', 'no report', () => silentCopies(10 * MINUTE_MS + 1), 'warning', 'n2'),
  row('doctor-document', 'more than 30 days left', () => documents(30 * DAY_MS + 1), 'good'),
  row('doctor-document', '30 days left', () => documents(30 * DAY_MS), 'warning'),
  row('doctor-document', 'ended', () => documents(0, 'operators'), 'error'),
  row('doctor-document', 'settings that no owner has signed', unsignedSettings, 'warning'),
  row('doctor-document', 'an old grant', () => documents(-DAY_MS, 'grant'), 'good'),
  row('doctor-collateral', 'more than a week left', () => collateral(7 * DAY_MS + 1), 'good'),
  row('doctor-collateral', 'a week left', () => collateral(7 * DAY_MS), 'warning'),
  row('doctor-collateral', 'expired', () => collateral(0), 'error'),
  row('doctor-join', 'refused a day ago', () => refusedJoin(DAY_MS), 'good'),
  row('doctor-join', 'refused within a day', () => refusedJoin(DAY_MS - 1), 'warning'),
  row('doctor-join', 'pending', () => refusedJoin(0, 'pending'), 'good'),
  row('doctor-etcd-learner', 'ten minutes', () => learner(10 * MINUTE_MS), 'good'),
  row('doctor-etcd-learner', 'more than ten minutes', () => learner(10 * MINUTE_MS + 1), 'warning', 'n4'),
  row('doctor-etcd-size', '80% of the quota', () => withEtcd({ dbSizeBytes: 80, quotaBytes: 100 }), 'good'),
  row(
    'doctor-etcd-size',
    '81% of the quota',
    () => withEtcd({ dbSizeBytes: 81, quotaBytes: 100 }),
    'warning',
  ),
  row(
    'doctor-etcd-unused',
    'half of the database is unused',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 512 * MIB, dbInUseBytes: 256 * MIB }) }),
    'good',
  ),
  row(
    'doctor-etcd-unused',
    'more than half',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 512 * MIB, dbInUseBytes: 255 * MIB }) }),
    'warning',
    'n2',
  ),
  row(
    'doctor-etcd-unused',
    'a small database',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 256 * MIB - 1, dbInUseBytes: 0 }) }),
    'good',
  ),
  row(
    'doctor-etcd-unused',
    'a database of the least size',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 256 * MIB, dbInUseBytes: 0 }) }),
    'warning',
  ),
  row(
    'doctor-fsync',
    '10 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ fsyncP99Ms: 10 }) }),
    'good',
  ),
  row(
    'doctor-fsync',
    '11 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ fsyncP99Ms: 11 }) }),
    'warning',
    'n2',
  ),
  row('doctor-fsync', 'no writes', () => withMetrics('n2', { stateEtcd: { hasLeader: true } }), 'good'),
  row(
    'doctor-latency',
    '100 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ peerRoundTripMs: 100 }) }),
    'good',
  ),
  row(
    'doctor-latency',
    '101 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ peerRoundTripMs: 101 }) }),
    'warning',
    'n2',
  ),
  row('doctor-pods', 'not ready for five minutes', () => pods(5 * MINUTE_MS), 'good'),
  row('doctor-pods', 'not ready for longer', () => pods(5 * MINUTE_MS + 1), 'warning', 'n4'),
  row('doctor-budget', 'no eviction permitted', () => budget({ allowed: 0 }), 'warning'),
  row('doctor-budget', 'blocks while a pod starts', () => budget({ allowed: 0, healthyPods: 1 }), 'good'),
  row('doctor-budget', 'no pods', () => budget({ allowed: 0, healthyPods: 0, expectedPods: 0 }), 'good'),
  row('doctor-chart', 'no release', () => withKubernetes(() => ({ releases: [] })), 'error'),
  row(
    'doctor-chart',
    'failed',
    () =>
      withKubernetes(({ releases }) => ({
        releases: releases.map((each) => ({ ...each, status: 'failed' })),
      })),
    'warning',
  ),
  row('doctor-skew', 'one minor version', () => withNode('n2', { agentVersion: '0.2.0' }), 'good'),
  row('doctor-skew', 'two minor versions', () => withNode('n2', { agentVersion: '0.3.0' }), 'error', 'n2'),
  row('doctor-skew', 'another major version', () => withNode('n2', { agentVersion: '1.1.0' }), 'error', 'n2'),
  row(
    'doctor-skew',
    'a kubelet three minors older',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.34.1' })),
      })),
    'good',
  ),
  row(
    'doctor-skew',
    'a kubelet four minors older',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.33.1' })),
      })),
    'error',
    'n1',
  ),
  row(
    'doctor-skew',
    'a newer kubelet',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.38.0' })),
      })),
    'error',
    'n1',
  ),
];

describe('the checks of a cluster', () => {
  test.each(ROWS)('$code is $want: $name', ({ code, facts, want, node }) => {
    const seen = judged(facts(), code);
    expect(seen?.grade ?? 'good').toBe(want);
    if (node !== undefined) expect(seen?.node).toBe(node);
    if (want !== 'good') expect(seen?.cause).not.toBe('');
    if (want === 'warning' || want === 'error') expect(seen?.fix).not.toBe('');
  });

  test('the table has good and bad facts for every check', () => {
    const bad = ROWS.filter(({ want }) => want !== 'good').map(({ code }) => code);
    expect(DOCTOR_CHECKS.map(({ code }) => code).filter((code) => !bad.includes(code))).toEqual([]);
  });

  test('every check has a figure and a threshold for a healthy cluster, and all are good', () => {
    const findings = diagnose(fakeFacts());
    const judgedCodes = new Set(findings.map(({ code }) => code));
    expect(DOCTOR_CHECKS.map(({ code }) => code).filter((code) => !judgedCodes.has(code))).toEqual([]);
    expect(
      findings.filter(
        ({ grade, figure, threshold }) => grade !== 'good' || figure === '' || threshold === '',
      ),
    ).toEqual([]);
  });

  test('a fact that could not be read is never judged as good', () => {
    const parts = {
      ...{ keys: away(), joins: away(), documents: away(), collateral: away() },
      backups: away(),
    };
    const facts = fakeFacts({
      ...{ ...parts, records: away(), kubernetes: away(), clocks: [], curators: [], apiServers: [] },
      ...{ metrics: [], kubelets: [] },
    });
    expect(
      diagnose(facts)
        .filter(({ grade }) => grade === 'good')
        .map(({ code }) => code),
    ).toEqual(['doctor-credentials', 'doctor-credentials']);
  });

  test('the margin of a certificate follows the configured lifetime', () => {
    const facts = (leftMs: number): ClusterFacts => {
      const seen = certificates(leftMs);
      if (!seen.records.ok) throw new Error('no records');
      return {
        ...seen,
        records: { ok: true, value: { ...seen.records.value, shortestLifetimeMs: HOUR_MS } },
      };
    };
    expect(judged(facts(10 * MINUTE_MS + SECOND_MS), 'doctor-certificate')?.grade).toBe('good');
    expect(judged(facts(10 * MINUTE_MS), 'doctor-certificate')?.grade).toBe('warning');
  });
});

describe('diagnose()', () => {
  const firstOf = (facts: ClusterFacts) => problemsFrom(diagnose(facts))[0];
  const silent = { ...withNode('n4', { health: 'silent', lastError: 'x: y' }) };

  test('names a silent node before everything that follows from it', () => {
    const facts = {
      ...silent,
      kubelets: [{ node: 'n4', answer: away('kube-unreachable') }],
      metrics: [{ node: 'n4', answer: away() }],
    };
    const problems = problemsFrom(diagnose(facts));
    expect(problems[0]?.code).toBe('doctor-node-silent');
    const kubeletFinding = problems.find(({ code }) => code === 'doctor-kubelet');
    expect(kubeletFinding?.followsFrom).toBe('doctor-node-silent');
  });

  test('a problem of another node does not follow from it', () => {
    const facts = { ...silent, apiServers: [{ node: 'n2', answer: away() }] };
    const problems = problemsFrom(diagnose(facts));
    expect(problems.find(({ code }) => code === 'doctor-api-server')?.followsFrom).toBeUndefined();
  });

  test('a clock that was not measured follows from its API server, although its check comes first', () => {
    const facts = fakeFacts({
      clocks: [{ node: 'n2', offset: away() }],
      apiServers: [{ node: 'n2', answer: away() }],
    });
    const finding = diagnose(facts).find(({ code }) => code === 'doctor-clock');
    expect(finding?.followsFrom).toBe('doctor-api-server');
  });

  test('a warning is never named as the cause of another problem', () => {
    const facts = { ...withNode('n4', { health: 'unknown', lastError: 'x: y' }) };
    expect(firstOf(facts)?.code).toBe('doctor-node-error');
  });

  const cases = [
    {
      name: 'a wrong clock before unreachable curators',
      facts: {
        ...clocks(HOUR_MS),
        records: away('cluster-curator-unreachable'),
        curators: [{ node: 'n1', answer: away() }],
      },
      want: 'doctor-clock',
    },
    {
      name: 'a lost quorum before silent curators and API servers',
      facts: fakeFacts({
        records: away('cluster-quorum-lost'),
        curators: [{ node: 'n1', answer: away() }],
        apiServers: [{ node: 'n1', answer: away() }],
      }),
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'a full etcd before agents with errors',
      facts: factsWithRecords({
        stateEtcd: fakeEtcd({ isFull: true }),
        nodes: [fakeNode('n1', { lastError: 'x: y' })],
      }),
      want: 'doctor-etcd-full',
    },
    {
      name: 'an etcd member before its curator',
      facts: {
        ...withMetrics('n2', { stateEtcd: undefined }),
        curators: [{ node: 'n2', answer: away('etcd-unavailable') }],
      },
      want: 'doctor-etcd-member',
    },
    {
      name: 'an error before a warning of an earlier check',
      facts: { ...withoutReady('coredns'), ...{ clocks: clocks(2 * MINUTE_MS).clocks } },
      want: 'doctor-dns',
    },
  ];
  test.each(cases)('names $name', ({ facts, want }) => {
    expect(firstOf(facts)?.code).toBe(want);
  });

  test('with names of nodes, leaves out the findings of other nodes, and keeps those of the cluster', () => {
    const findings = diagnose(withNode('n2', { health: 'silent' }), ['n4']);
    expect(findings.some(({ node }) => node !== undefined && node !== 'n4')).toBe(false);
    expect(findings.some(({ code }) => code === 'doctor-dns')).toBe(true);
  });
});
