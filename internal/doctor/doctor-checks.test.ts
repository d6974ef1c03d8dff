import { describe, expect, test } from '@jest/globals';
import type { ClusterFacts, FactsPart, NodeFacts } from './cluster-facts.ts';
import { diagnose, problemsFrom, type Grade } from './diagnose.ts';
import { DOCTOR_CHECKS } from './doctor-checks.ts';
import type { DoctorErrorCode } from './errors.ts';
import { notCheckedIn } from './not-checked.ts';
import {
  factsOfMachine,
  factsWithRecords,
  factsWithRoundTrips,
  fakeContent,
  fakeEtcd,
  fakeFacts,
  fakeLocalFacts,
  fakeMember,
  fakeNode,
  NOW_MS,
} from './fake-facts.ts';

const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000];
const MIB = 1024 ** 2;
/** Of Kubernetes 1.37, which the fake nodes run. */
const SUPPORT_ENDS_MS = Date.UTC(2027, 9, 29);
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

function withRelease(change: Partial<NonNullable<Kubernetes['releases']>[number]>): ClusterFacts {
  return withKubernetes(({ releases }) => ({ releases: releases?.map((each) => ({ ...each, ...change })) }));
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

/** The round trips of a member to a fast peer, which is n3. */
const PEERS = [{ id: 'member-n3', roundTripMs: 0.8 }];

/** Facts in which the agent of n4 reports this growth of its kubelet disk. */
const withGrowth = (gibPerDay: number | undefined, measuredMs = 9 * DAY_MS): ClusterFacts =>
  withMetrics('n4', {
    growth: [
      {
        ...{ kind: 'filesystem', name: '/var/lib/kubelet', measuredMs },
        ...(gibPerDay !== undefined && { bytesPerDay: gibPerDay * 1024 ** 3 }),
      },
    ],
  });

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

/** Facts in which control planes report this about the Kubernetes etcd, and nothing if they are not named. */
function withContents(
  reports: Readonly<Record<string, Parameters<typeof fakeContent>[0]>>,
  changes: Readonly<Record<string, Partial<NodeFacts>>> = {},
): ClusterFacts {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => {
    const report = reports[name];
    const etcdContents = { state: fakeContent(), ...(report && { kubernetes: fakeContent(report) }) };
    return fakeNode(name, { etcdContents, ...changes[name] });
  });
  return factsWithRecords({ nodes });
}
/** n2 differs from n1 and n3. */
const DIFFERS = { agreeing: ['id-n1', 'id-n3'], differing: ['id-n2'] };
const NEVER = { comparedMs: undefined, agreeing: [] };

/** Facts in which agents report nodes that do not answer through the network of pods. */
const gaps = (
  found: Readonly<Record<string, readonly string[]>>,
  changes: Readonly<Record<string, Partial<NodeFacts>>> = {},
): ClusterFacts => {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => {
    const address = (node: string): string => `10.244.${node.slice(1)}.0`;
    const podNetwork = { address: address(name), unreachable: (found[name] ?? []).map(address) };
    return fakeNode(name, { machine: { services: [], problems: [], podNetwork }, ...changes[name] });
  });
  return factsWithRecords({ nodes });
};
/** Facts in which agents report nodes that full-size packets do not reach. */
const losses = (
  found: Readonly<Record<string, readonly string[]>>,
  changes: Readonly<Record<string, Partial<NodeFacts>>> = {},
): ClusterFacts => {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => {
    const address = (node: string): string => `10.244.${node.slice(1)}.0`;
    const lost = (found[name] ?? []).map(address);
    const podNetwork = { address: address(name), unreachable: [], fullPackets: { lost, judged: 3 } };
    return fakeNode(name, { machine: { services: [], problems: [], podNetwork }, ...changes[name] });
  });
  return factsWithRecords({ nodes });
};
/** n4, which the DNS of the cluster does not answer for this reason. */
const lookup = (failure: string, changes: Partial<NodeFacts> = {}): ClusterFacts =>
  withNode('n4', { machine: { services: [], problems: [], nameLookup: { failure } }, ...changes });
/** n4, whose kubelet does not start. */
const kubeletFails = (changes: Partial<NodeFacts>): ClusterFacts =>
  withNode('n4', {
    machine: {
      services: [{ name: 'kubelet', why: 'does not start: unknown flag: --network-plugin' }],
      problems: [],
    },
    ...changes,
  });
const FORWARDING = {
  ...{ code: 'preflight-sysctl', subject: 'net.ipv4.ip_forward', isWarning: false },
  cause: 'net.ipv4.ip_forward is 0, must be 1 (run: sysctl -w net.ipv4.ip_forward=1)',
};
const READ_ONLY = {
  ...{ code: 'preflight-read-only', subject: 'file system /var' },
  cause: 'the file system of /var/lib/cluster is read-only: /dev/sdb1 (ext4) on /var',
};
/** n4 knows that a machine of this name was removed before the cluster was restored. */
const unmerged = (subject: string, changes: Partial<NodeFacts> = {}): ClusterFacts => {
  const problem = { code: 'doctor-removal-unmerged', subject, cause: '', isWarning: true };
  return withNode('n4', { machine: { services: [], problems: [problem] }, ...changes });
};
/** n4 has this problem, and its kubelet does not start. */
const setting = (problem: Partial<typeof FORWARDING>, changes: Partial<NodeFacts> = {}): ClusterFacts =>
  withNode('n4', {
    machine: {
      services: [{ name: 'kubelet', why: 'does not start' }],
      problems: [{ ...FORWARDING, ...problem }],
    },
    ...changes,
  });
const withDirectories = (...protections: string[]): ClusterFacts =>
  withNode('n2', { directories: protections.map((protection, at) => ({ path: `/d${at}`, protection })) });
const clocks = (ms: number): ClusterFacts =>
  fakeFacts({ clocks: [{ node: 'n1', offset: { ok: true, value: { ms } } }] });
/** The clock of n4 is ahead of that of n1, whose curator receives its heartbeats; the clock of n1 is ahead of the workstation. */
const workerClock = (ms: number, ofN1Ms = 300): ClusterFacts => ({
  ...clocks(ofN1Ms),
  curators: [{ node: 'n1', answer: { ok: true, value: { clocks: [{ nodeId: 'id-n4', ms }] } } }],
  records: factsWithRecords({ nodes: ['n1', 'n4'].map((each) => fakeNode(each)) }).records,
});
const certificates = (leftMs: number, name = '/etc/x.crt'): ClusterFacts =>
  withNode('n2', { certificates: [{ name, notAfterMs: NOW_MS + leftMs }] });
/** n4 has been a node for 90 days and is a learner of the state etcd, which started `ageMs` ago on n4. */
const learner = (ageMs?: number): ClusterFacts => ({
  ...factsWithRecords({
    stateEtcd: fakeEtcd({ members: [...fakeEtcd().members, { name: 'id-n4', isLearner: true }] }),
    nodes: ['n1', 'n2', 'n3', 'n4'].map((each) => fakeNode(each, { createdMs: NOW_MS - 90 * DAY_MS })),
  }),
  metrics: withMetrics('n4', {
    stateEtcd: fakeMember(ageMs === undefined ? {} : { startedMs: NOW_MS - ageMs }),
    kubernetesEtcd: fakeMember({ startedMs: NOW_MS - 90 * DAY_MS }),
  }).metrics,
});
const pods = (ageMs: number, more: object = {}): ClusterFacts =>
  withKubernetes(({ pods: all }) => ({
    pods: all.map((pod) =>
      pod.name === 'web-1'
        ? { ...pod, isReady: false, why: 'crash', createdMs: NOW_MS - ageMs, ...more }
        : pod,
    ),
  }));
const secondDns = (more: object): ClusterFacts =>
  withKubernetes(({ pods: all }) => ({
    pods: all.flatMap((pod) =>
      pod.app === 'kube-dns'
        ? [pod, { ...pod, name: 'coredns-2', isReady: false, why: 'crash', ...more }]
        : [pod],
    ),
  }));
const failures = (of: NonNullable<Kubernetes['failures']>): ClusterFacts =>
  withKubernetes(() => ({ failures: of }));
const webhook = (isRequired: boolean, readyEndpoints: number): ClusterFacts =>
  failures({
    webhooks: [{ name: 'validate.policy.example.com', service: 'policy/hook', isRequired, readyEndpoints }],
  });
const terminating = (forMs: number, waitsForFinalizers: boolean): ClusterFacts =>
  failures({ namespaces: [{ name: 'shop', sinceMs: NOW_MS - forMs, why: 'left', waitsForFinalizers }] });
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
/**
 * Facts in which the CA of namespace "default" changed this long ago. The containers of the pods have run for a day.
 */
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
/** The schedule demands a backup every six hours. */
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
/** Facts of a cluster where n2 found an old disk an hour ago, and where an owner signed policy and settings this long after that. */
const oldDisk = (policyMs: number, settingsMs = policyMs): ClusterFacts => {
  const oldDiskMs = NOW_MS - HOUR_MS;
  const endsMs = NOW_MS + 300 * DAY_MS;
  const signed = (kind: string, ms: number) => ({ kind, endsMs, issuedMs: oldDiskMs + ms });
  return {
    ...withNode('n2', { oldDiskMs }),
    documents: {
      ok: true,
      value: [signed('owners', -DAY_MS), signed('policy', policyMs), signed('settings', settingsMs)],
    },
  };
};
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

type Evidence = NonNullable<ClusterFacts['evidence']>[number]['answer'];

/** Facts in which this was found about the evidence of n2. */
const evidenceOf = (answer: Evidence): ClusterFacts => {
  const facts = fakeFacts();
  return {
    ...facts,
    evidence: (facts.evidence ?? []).map((each) => (each.node === 'n2' ? { node: 'n2', answer } : each)),
  };
};
/** Facts in which the evidence of n2 was refused. */
const refusedEvidence = (code: string, ...differing: string[]): ClusterFacts =>
  evidenceOf({
    ok: true,
    value: {
      ...{ variant: 'tpm', profile: 'measured', isAccepted: false },
      refusal: { code, reason: 'checking pcr4', differing, lockRegister: 'pcr15' },
    },
  });
const acceptedEvidence = (variant: string, profile: string): ClusterFacts =>
  evidenceOf({ ok: true, value: { variant, profile, isAccepted: true } });

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
  // 50 GiB are left until less than 10% of 100 GiB is free.
  row('doctor-disk-growth', 'the disk is full in more than a week', () => withGrowth(7.1), 'good'),
  row('doctor-disk-growth', 'the disk is full in less than a week', () => withGrowth(7.2), 'warning', 'n4'),
  row('doctor-disk-growth', 'the disk does not grow', () => withGrowth(0), 'good'),
  row(
    'doctor-disk-growth',
    'the growth was measured for some hours only',
    () => withGrowth(undefined, HOUR_MS),
    'good',
  ),
  row(
    'doctor-disk-growth',
    'the agent does not measure the growth',
    () => withMetrics('n4', { growth: undefined }),
    'unknown',
  ),
  row(
    'doctor-disk-growth',
    'the metrics could not be read',
    () => ({
      ...fakeFacts(),
      metrics: fakeFacts().metrics.map(({ node }) => ({ node, answer: away() })),
    }),
    'unknown',
  ),
  row(
    'doctor-kubernetes-support',
    'more than 60 days are left',
    () => fakeFacts({ takenMs: SUPPORT_ENDS_MS - 60 * DAY_MS - 1 }),
    'good',
  ),
  row(
    'doctor-kubernetes-support',
    '60 days are left',
    () => fakeFacts({ takenMs: SUPPORT_ENDS_MS - 60 * DAY_MS }),
    'warning',
  ),
  row(
    'doctor-kubernetes-support',
    'it has ended',
    () => fakeFacts({ takenMs: SUPPORT_ENDS_MS + DAY_MS }),
    'warning',
  ),
  row(
    'doctor-kubernetes-support',
    'a node runs a version that is not known',
    () => withNode('n4', { kubernetesVersion: 'v1.99.0' }),
    'unknown',
  ),
  row(
    'doctor-kubernetes-support',
    'a node does not run Kubernetes yet',
    () => withNode('n4', { kubernetesVersion: '' }),
    'good',
  ),
  row('doctor-clock', "a worker's clock is a minute behind", () => workerClock(-MINUTE_MS), 'good'),
  row(
    'doctor-clock',
    "a worker's clock is more than a minute behind",
    () => workerClock(-MINUTE_MS - 1),
    'warning',
    'n4',
  ),
  row(
    'doctor-clock',
    "a worker's clock is five minutes ahead",
    () => workerClock(5 * MINUTE_MS),
    'warning',
    'n4',
  ),
  row(
    'doctor-clock',
    "a worker's clock is more than five minutes ahead",
    () => workerClock(5 * MINUTE_MS + 1),
    'error',
    'n4',
  ),
  row(
    'doctor-clock',
    'the agent of a worker does not report its clock',
    () =>
      fakeFacts({
        curators: fakeFacts().curators.map((each) => ({ ...each, answer: { ok: true, value: {} } })),
      }),
    'unknown',
    'n4',
  ),
  row(
    'doctor-clock',
    'the worker whose clock is not reported is silent',
    () => ({ ...withNode('n4', { health: 'silent' }), curators: workerClock(7 * MINUTE_MS).curators }),
    'good',
  ),
  row('doctor-clock', "an API server's clock is a minute ahead", () => clocks(MINUTE_MS), 'good'),
  row(
    'doctor-clock',
    "an API server's clock is more than a minute ahead",
    () => clocks(MINUTE_MS + 1),
    'warning',
  ),
  row(
    'doctor-clock',
    "an API server's clock is five minutes behind",
    () => clocks(-5 * MINUTE_MS),
    'warning',
  ),
  row(
    'doctor-clock',
    "an API server's clock is more than five minutes behind",
    () => clocks(-5 * MINUTE_MS - 1),
    'error',
  ),
  row('doctor-servers-ca', 'a pod started after the CA changed', () => serversCa(DAY_MS), 'good'),
  row('doctor-servers-ca', 'a pod started before the CA changed', () => serversCa(DAY_MS - 1), 'warning'),
  row(
    'doctor-servers-ca',
    'an older pod does not mount the CA',
    () => serversCa(HOUR_MS, { serversCaReadMs: undefined }),
    'good',
  ),
  row(
    'doctor-servers-ca',
    'the containers of an older pod were restarted',
    () => serversCa(HOUR_MS, { serversCaReadMs: NOW_MS - MINUTE_MS }),
    'good',
  ),
  row(
    'doctor-servers-ca',
    'an earlier version saved the facts',
    () => withKubernetes(() => ({ serversCas: undefined })),
    'unknown',
  ),
  row('doctor-clock', 'the facts name no control plane', () => fakeFacts({ clocks: [] }), 'unknown'),
  row('doctor-credentials', 'more than a week is left', () => credentials(7 * DAY_MS + 1), 'good'),
  row('doctor-credentials', 'a week is left', () => credentials(7 * DAY_MS), 'warning'),
  row('doctor-credentials', 'a millisecond is left', () => credentials(1), 'warning'),
  row('doctor-credentials', 'a credential has expired', () => credentials(0), 'error'),
  row('doctor-host-name', 'it resolves', () => fakeFacts(), 'good'),
  row('doctor-host-name', 'no name is used', () => fakeFacts({ hostNames: [] }), 'good'),
  row(
    'doctor-host-name',
    'it does not resolve',
    () => fakeFacts({ hostNames: [{ name: 'api.prod.example', answer: away() }] }),
    'error',
  ),
  row('doctor-kubeconfig', 'its server serves', () => fakeFacts(), 'good'),
  row(
    'doctor-kubeconfig',
    'its server does not serve',
    () => fakeFacts({ kubeconfig: { server: 'https://192.0.2.10:6443', answer: away() } }),
    'error',
  ),
  row('doctor-etcd-full', 'the quota is used up', () => withEtcd({ isFull: true }), 'error'),
  row('doctor-etcd-corrupt', 'the alarm is active', () => withEtcd({ isCorrupt: true }), 'error'),
  row(
    'doctor-etcd-corrupt',
    'an earlier version saved the facts',
    () => withEtcd({ isCorrupt: undefined }),
    'good',
  ),
  row(
    'doctor-etcd-corrupt',
    'curators cannot read the records because of it',
    () => fakeFacts({ records: away('curator-failed', 'etcd-corrupt') }),
    'error',
  ),
  row(
    'doctor-etcd-quorum',
    'the alarm CORRUPT prevents that the records are read',
    () => fakeFacts({ records: away('etcd-corrupt') }),
    'unknown',
  ),
  row('doctor-etcd-content', 'a member differs', () => withContents({ n1: DIFFERS }), 'error', 'n2'),
  row(
    'doctor-etcd-content',
    'no majority agrees',
    () => withContents({ n1: { agreeing: [], differing: ['id-n1', 'id-n2'], notCompared: ['id-n3'] } }),
    'error',
  ),
  row(
    'doctor-etcd-content',
    'the member that differs was taken out since',
    () => ({
      ...factsWithRecords({
        kubernetesEtcd: fakeEtcd({ members: ['id-n1', 'id-n3'].map((name) => ({ name, isLearner: false })) }),
        nodes: ['n1', 'n2', 'n3'].map((name) =>
          fakeNode(name, { etcdContents: { state: fakeContent(), kubernetes: fakeContent(DIFFERS) } }),
        ),
      }),
    }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'another leader has found later that all members agree',
    () => withContents({ n1: { ...DIFFERS, comparedMs: NOW_MS - HOUR_MS }, n3: {} }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'a member was not compared',
    () => withContents({ n1: { agreeing: ['id-n1', 'id-n3'], notCompared: ['id-n2'] } }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'the agents have started a moment ago',
    () => withContents({ n1: { ...NEVER, sinceMs: NOW_MS }, n2: { ...NEVER, sinceMs: NOW_MS - 1 } }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'the last comparison is three hours old',
    () => withContents({ n1: { comparedMs: NOW_MS - 3 * HOUR_MS } }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'the last comparison is older',
    () => withContents({ n1: { comparedMs: NOW_MS - 3 * HOUR_MS - 1 } }),
    'warning',
  ),
  row('doctor-etcd-content', 'members were never compared', () => withContents({ n1: NEVER }), 'warning'),
  row(
    'doctor-etcd-content',
    'the last comparison is older, and an agent has started since',
    () =>
      withContents({ n1: { comparedMs: NOW_MS - 4 * HOUR_MS }, n2: { ...NEVER, sinceMs: NOW_MS - HOUR_MS } }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'the last comparison is older, and a control plane is silent',
    () => withContents({ n1: { comparedMs: NOW_MS - 4 * HOUR_MS } }, { n2: { health: 'silent' } }),
    'good',
  ),
  row('doctor-etcd-content', 'no agent reports it', () => withContents({}), 'unknown'),
  row(
    'doctor-etcd-content',
    'only a worker reports that members differ',
    () => withContents({ n1: {}, n4: { ...DIFFERS, comparedMs: NOW_MS } }),
    'good',
  ),
  row(
    'doctor-etcd-content',
    'there is one member',
    () => {
      const members = [{ name: 'id-n1', isLearner: false }];
      const etcd = fakeEtcd({ members });
      return factsWithRecords({
        stateEtcd: etcd,
        kubernetesEtcd: etcd,
        nodes: [fakeNode('n1', { etcdContents: undefined })],
      });
    },
    'good',
  ),
  row('doctor-etcd-quorum', 'etcd has no leader', () => withEtcd({ hasLeader: false }), 'error'),
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
  row(
    'doctor-node-silent',
    'the heartbeats of a node have stopped',
    () => withNode('n4', { health: 'silent' }),
    'error',
    'n4',
  ),
  row(
    'doctor-node-silent',
    'a member has never sent a heartbeat',
    () => withNode('n4', { health: 'unknown' }),
    'warning',
    'n4',
  ),
  row(
    'doctor-node-silent',
    'the silent machine is not a member yet',
    () => withNode('n4', { health: 'unknown', state: 'new' }),
    'good',
  ),
  row(
    'doctor-disk-space',
    '15% of a disk is free',
    () => withDisk({ capacityBytes: 100, availableBytes: 15 }),
    'good',
  ),
  row(
    'doctor-disk-space',
    '14% of a disk is free',
    () => withDisk({ capacityBytes: 100, availableBytes: 14 }),
    'warning',
    'n4',
  ),
  row(
    'doctor-disk-space',
    '10% of a disk is free',
    () => withDisk({ capacityBytes: 100, availableBytes: 10 }),
    'warning',
  ),
  row(
    'doctor-disk-space',
    '9% of a disk is free',
    () => withDisk({ capacityBytes: 100, availableBytes: 9 }),
    'error',
    'n4',
  ),
  row(
    'doctor-disk-space',
    'a kubelet refuses to report',
    () => kubelet('refused', 'kube-refused'),
    'unknown',
    'n4',
  ),
  row(
    'doctor-disk-clear',
    'all directories are in the clear',
    () => withDirectories('clear', 'clear'),
    'good',
  ),
  row(
    'doctor-disk-clear',
    'the directories are encrypted or in memory',
    () => withDirectories('encrypted', 'memory'),
    'good',
  ),
  row(
    'doctor-disk-clear',
    'only one of two directories is encrypted',
    () => withDirectories('encrypted', 'clear'),
    'error',
    'n2',
  ),
  row(
    'doctor-disk-clear',
    'a directory has a kind of encryption that only a newer agent knows',
    () => withDirectories('encrypted', 'other'),
    'error',
  ),
  row(
    'doctor-disk-clear',
    'the agent does not report the directories',
    () => withDirectories(),
    'unknown',
    'n2',
  ),
  row(
    'doctor-disk-inodes',
    '10% of the inodes are free',
    () => withDisk({ inodes: 100, inodesFree: 10 }),
    'good',
  ),
  row(
    'doctor-disk-inodes',
    '9% of the inodes are free',
    () => withDisk({ inodes: 100, inodesFree: 9 }),
    'warning',
    'n4',
  ),
  row(
    'doctor-disk-inodes',
    '5% of the inodes are free',
    () => withDisk({ inodes: 100, inodesFree: 5 }),
    'warning',
  ),
  row(
    'doctor-disk-inodes',
    '4% of the inodes are free',
    () => withDisk({ inodes: 100, inodesFree: 4 }),
    'error',
    'n4',
  ),
  row(
    'doctor-disk-inodes',
    'the file system has no fixed number of inodes',
    () => withDisk({ inodes: 0, inodesFree: 0 }),
    'good',
  ),
  row(
    'doctor-etcd-member',
    'a member does not respond',
    () => withMetrics('n2', { kubernetesEtcd: undefined }),
    'error',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'a member sees no leader',
    () => withMetrics('n2', { stateEtcd: fakeMember({ hasLeader: false }) }),
    'error',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'a node returns no metrics',
    () => fakeFacts({ metrics: [{ node: 'n2', answer: away() }] }),
    'unknown',
    'n2',
  ),
  row(
    'doctor-etcd-member',
    'a worker reports no member',
    () => fakeFacts({ metrics: [{ node: 'n4', answer: { ok: true, value: { balancer: [] } } }] }),
    'good',
  ),
  row(
    'doctor-curator',
    'a curator does not respond',
    () => fakeFacts({ curators: [{ node: 'n2', answer: away() }] }),
    'error',
    'n2',
  ),
  row(
    'doctor-join-service',
    'a join service does not respond',
    () => fakeFacts({ joinServices: [{ node: 'n2', answer: away() }] }),
    'error',
    'n2',
  ),
  row(
    'doctor-join-service',
    'the facts name no control plane',
    () => fakeFacts({ joinServices: [] }),
    'unknown',
  ),
  row(
    'doctor-api-server',
    'an API server does not respond',
    () => fakeFacts({ apiServers: [{ node: 'n2', answer: away() }] }),
    'error',
    'n2',
  ),
  row('doctor-api-server', 'the facts name no API server', () => fakeFacts({ apiServers: [] }), 'unknown'),
  row(
    'doctor-control-plane',
    'a component is not ready',
    () => withNode('n2', { componentsNotReady: [{ name: 'kube-scheduler', why: 'crash' }] }),
    'error',
    'n2',
  ),
  row(
    'doctor-control-plane',
    'the node that reports a component as not ready is silent',
    () =>
      withNode('n2', { health: 'silent', componentsNotReady: [{ name: 'kube-scheduler', why: 'crash' }] }),
    'good',
  ),
  row(
    'doctor-pod-network',
    'a node is cut off from the pods of others',
    () => gaps({ n4: ['n1'] }),
    'error',
    'n4',
  ),
  row(
    'doctor-pod-network',
    'a node does not answer because it is silent',
    () => gaps({ n4: ['n1'] }, { n1: { health: 'silent' } }),
    'good',
  ),
  row(
    'doctor-pod-network',
    'the node that reports gaps is silent',
    () => gaps({ n4: ['n1'] }, { n4: { health: 'silent' } }),
    'good',
  ),
  row(
    'doctor-pod-network',
    'a node does not answer because its network chart has not started',
    () => gaps({ n4: ['n1'] }, { n1: { machine: { services: [], problems: [] } } }),
    'good',
  ),
  row(
    'doctor-mtu',
    'full-size packets to a node are lost',
    () => losses({ n4: ['n2'], n1: ['n2'] }),
    'error',
    'n2',
  ),
  row(
    'doctor-mtu',
    'the node that reports losses is silent',
    () => losses({ n4: ['n2'] }, { n4: { health: 'silent' } }),
    'good',
  ),
  row(
    'doctor-node-latency',
    'a round trip takes 100 ms',
    () => factsWithRoundTrips({ n4: { n1: 100 } }),
    'good',
  ),
  row(
    'doctor-node-latency',
    'a round trip takes 101 ms',
    () => factsWithRoundTrips({ n4: { n1: 101 } }),
    'warning',
    'n4',
  ),
  row(
    'doctor-node-latency',
    'the node that reports a long round trip is silent',
    () => factsWithRoundTrips({ n4: { n1: 101 } }, { n4: { health: 'silent' } }),
    'good',
  ),
  row(
    'doctor-node-latency',
    'the node to which a round trip takes long is silent',
    () => factsWithRoundTrips({ n4: { n1: 101 } }, { n1: { health: 'silent' } }),
    'good',
  ),
  row(
    'doctor-node-latency',
    'an older agent does not measure round trips',
    () => losses({}),
    'unknown',
    'n1',
  ),
  row('doctor-machine', 'a kernel parameter is wrong', () => setting({}), 'error', 'n4'),
  row('doctor-machine', 'a file system is read-only', () => setting(READ_ONLY), 'error', 'n4'),
  row('doctor-machine', 'a setting disturbs pods only', () => setting({ isWarning: true }), 'warning', 'n4'),
  row(
    'doctor-machine',
    'the node that reports a wrong kernel parameter is silent',
    () => setting({}, { health: 'silent' }),
    'good',
  ),
  row(
    'doctor-machine',
    'the agent of a node does not report its settings',
    () => withNode('n2', { machine: undefined }),
    'unknown',
    'n2',
  ),
  row('doctor-host-service', 'the kubelet of a node does not start', () => kubeletFails({}), 'error', 'n4'),
  row(
    'doctor-host-service',
    'the node that reports a failing kubelet is silent',
    () => kubeletFails({ health: 'silent' }),
    'good',
  ),
  row(
    'doctor-host-service',
    'the agent of a node does not report its services',
    () => withNode('n2', { machine: undefined }),
    'unknown',
    'n2',
  ),
  row(
    'doctor-host-service',
    'an etcd does not run, which another check reports',
    () =>
      withNode('n2', { machine: { services: [{ name: 'state etcd', why: 'is stopped' }], problems: [] } }),
    'good',
  ),
  row(
    'doctor-kubernetes',
    'the Kubernetes API could not be read',
    () => fakeFacts({ kubernetes: away('kube-unreachable') }),
    'error',
  ),
  row(
    'doctor-kubernetes',
    'an operator has no kubeconfig',
    () => fakeFacts({ kubernetes: away('cluster-no-kubeconfig') }),
    'unknown',
  ),
  row(
    'doctor-kubelet',
    'a kubelet reports its node as not ready',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, isReady: node.name !== 'n2', why: 'PLEG' })),
      })),
    'error',
    'n2',
  ),
  row(
    'doctor-kubelet',
    'a node is not registered in Kubernetes',
    () => withKubernetes(({ nodes }) => ({ nodes: nodes.slice(0, 3) })),
    'error',
    'n4',
  ),
  row(
    'doctor-kubelet',
    'a kubelet does not respond',
    () => kubelet('timed out', 'kube-unreachable'),
    'error',
    'n4',
  ),
  row(
    'doctor-kubelet',
    'the operator may not query a kubelet',
    () => kubelet('refused', 'kube-refused'),
    'good',
  ),
  row(
    'doctor-kubelet',
    'the Kubernetes API could not be read',
    () => fakeFacts({ kubernetes: away() }),
    'unknown',
  ),
  row(
    'doctor-node-pressure',
    'a node reports disk pressure',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, pressures: node.name === 'n3' ? ['DiskPressure'] : [] })),
      })),
    'error',
    'n3',
  ),
  row(
    'doctor-network',
    'the network pod of one node is not ready',
    () => withoutReady('flannel-n3'),
    'error',
    'n3',
  ),
  row(
    'doctor-network',
    'the network chart is installed and has no pods',
    () =>
      withKubernetes(({ pods: all }) => ({
        pods: all.filter(({ namespace }) => namespace !== 'kube-flannel'),
      })),
    'error',
    'n1',
  ),
  row(
    'doctor-network',
    'the cluster uses another network',
    () => ({
      ...withKubernetes(({ pods: all }) => ({
        pods: all.filter(({ namespace }) => namespace !== 'kube-flannel'),
      })),
      charts: [],
    }),
    'good',
  ),
  row(
    'doctor-proxy',
    'kube-proxy is not ready on one node',
    () => withoutReady('kube-proxy-n2'),
    'error',
    'n2',
  ),
  row('doctor-dns', 'no CoreDNS pod is ready', () => withoutReady('coredns'), 'error'),
  row(
    'doctor-dns',
    'CoreDNS is scaled to 0',
    () => withKubernetes(({ pods: all }) => ({ pods: all.filter(({ app }) => app !== 'kube-dns') })),
    'error',
  ),
  row(
    'doctor-balancer',
    'a balancer does not reach one API server',
    () => withMetrics('n4', { balancer: [{ server: '192.0.2.3:6443', verdict: 'silent' }] }),
    'warning',
    'n3',
  ),
  row(
    'doctor-node-error',
    'an agent reports an error',
    () => withNode('n2', { lastError: 'kubelet-x: crash' }),
    'error',
    'n2',
  ),
  row(
    'doctor-agent',
    'a part of the agent has ended',
    () => withNode('n2', { deadRunnables: ['root.roleserve'] }),
    'warning',
    'n2',
  ),
  row(
    'doctor-evidence',
    'a register differs from the reference values',
    () => refusedEvidence('attestation-register-mismatch', 'pcr4'),
    'error',
    'n2',
  ),
  row(
    'doctor-evidence',
    'the record names another machine',
    () => refusedEvidence('nodes-machine-changed'),
    'error',
    'n2',
  ),
  row('doctor-evidence', 'a node does not answer', () => evidenceOf(away()), 'unknown', 'n2'),
  row(
    'doctor-evidence',
    'the workstation has no collateral',
    () => refusedEvidence('tdx-collateral-missing'),
    'unknown',
    'n2',
  ),
  row(
    'doctor-evidence',
    'a node shows a machine key',
    () => acceptedEvidence('machine-key', 'identity'),
    'good',
  ),
  row(
    'doctor-evidence',
    'evidence is neither accepted nor refused',
    () => evidenceOf({ ok: true, value: { variant: 'tpm', profile: 'measured', isAccepted: false } }),
    'error',
    'n2',
  ),
  row(
    'doctor-evidence',
    'the facts are from a version that asked for no evidence',
    () => fakeFacts({ evidence: undefined }),
    'unknown',
  ),
  row('doctor-certificate', 'more than a day is left', () => certificates(DAY_MS + 1), 'good'),
  row('doctor-certificate', 'a day is left', () => certificates(DAY_MS), 'warning', 'n2'),
  row('doctor-certificate', 'a certificate has expired', () => certificates(0), 'error', 'n2'),
  row('doctor-ca', 'more than 90 days are left', () => certificates(90 * DAY_MS + 1, '/x/ca.crt'), 'good'),
  row(
    'doctor-ca',
    '90 days are left',
    () => certificates(90 * DAY_MS, '/x/front-proxy-ca.crt'),
    'warning',
    'n2',
  ),
  row('doctor-ca', 'a CA has expired', () => certificates(-1, '/x/ca.crt'), 'error', 'n2'),
  row('doctor-keys', 'the rotation has been in one phase for an hour', () => keys(HOUR_MS), 'good'),
  row(
    'doctor-keys',
    'the rotation has been in one phase for more than an hour',
    () => keys(HOUR_MS + 1),
    'warning',
  ),
  row(
    'doctor-keys',
    'the rotation waits for an owner to sign new keys',
    () => keys(0, { needsOwner: true }),
    'warning',
  ),
  row(
    'doctor-keys',
    'an owner has signed the keys',
    () => keys(0, { isDone: true, needsOwner: false }),
    'good',
  ),
  row(
    'doctor-keys',
    'no owner has signed the keys of the last rotation',
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
    'the newest proved backup is older than two periods and ten minutes',
    () => backups(12 * HOUR_MS + 10 * MINUTE_MS + 1),
    'warning',
  ),
  row(
    'doctor-backup',
    'the newest proved backup is more than four periods old',
    () => backups(25 * HOUR_MS),
    'error',
  ),
  row('doctor-backup', 'a new schedule has no proved backup yet', () => unprovedBackups(HOUR_MS), 'good'),
  row(
    'doctor-backup',
    'no backup was proved since the schedule was signed a day ago',
    () => unprovedBackups(DAY_MS),
    'warning',
  ),
  row(
    'doctor-backup',
    'no backup was proved since the schedule was signed two days ago',
    () => unprovedBackups(2 * DAY_MS),
    'error',
  ),
  row('doctor-backup', 'the last attempt failed', failedBackup, 'warning'),
  row('doctor-backup-schedule', 'more than 30 days are left', () => scheduleEnds(30 * DAY_MS + 1), 'good'),
  row('doctor-backup-schedule', '30 days are left', () => scheduleEnds(30 * DAY_MS), 'warning'),
  row('doctor-backup-schedule', 'the signature has expired', () => scheduleEnds(0), 'error'),
  row(
    'doctor-backup-schedule',
    'the schedule does not name one of the control planes',
    () => scheduleWithout('id-n3'),
    'warning',
  ),
  row('doctor-backup-proof', 'the data of the proofs was in memory or on encrypted disks', fakeFacts, 'good'),
  row(
    'doctor-backup-proof',
    'a control plane with little memory proved a backup on its unencrypted disk',
    () => withBackups(() => ({ clearProofs: [{ node: 'n2', sizeBytes: 2 ** 31 }] })),
    'warning',
    'n2',
  ),
  row('doctor-backup-copies', 'the directory for copies is not mounted', failedCopy, 'error'),
  row(
    'doctor-backup-copies',
    'a control plane has not reported copies for a new schedule yet',
    () => silentCopies(10 * MINUTE_MS),
    'good',
  ),
  row(
    'doctor-backup-copies',
    'a control plane does not report copies for an older schedule',
    () => silentCopies(10 * MINUTE_MS + 1),
    'warning',
    'n2',
  ),
  row('doctor-removal-unmerged', 'no node knows such a member', () => fakeFacts(), 'good'),
  row(
    'doctor-removal-unmerged',
    'a node knows that a member was removed',
    () => unmerged('n2'),
    'warning',
    'n4',
  ),
  row('doctor-removal-unmerged', 'the machine is no member any more', () => unmerged('n9'), 'good'),
  row('doctor-removal-unmerged', 'the node is silent', () => unmerged('n2', { health: 'silent' }), 'good'),
  row('doctor-machine', 'a node knows that a member was removed', () => unmerged('n2'), 'good'),
  row('doctor-old-disk', 'an owner has signed since a node found an old disk', () => oldDisk(1), 'good'),
  row('doctor-old-disk', 'no owner has signed since', () => oldDisk(0), 'warning', 'n2'),
  row('doctor-old-disk', 'one document was not signed since', () => oldDisk(1, 0), 'warning', 'n2'),
  row('doctor-document', 'more than 30 days are left', () => documents(30 * DAY_MS + 1), 'good'),
  row('doctor-document', '30 days are left', () => documents(30 * DAY_MS), 'warning'),
  row('doctor-document', 'a document has expired', () => documents(0, 'operators'), 'error'),
  row('doctor-document', 'no owner has signed the settings', unsignedSettings, 'warning'),
  row(
    'doctor-document',
    'no owner has signed anything',
    () => fakeFacts({ documents: { ok: true, value: [] } }),
    'warning',
  ),
  row(
    'doctor-document',
    'a grant, which admits one machine, has expired',
    () => documents(-DAY_MS, 'grant'),
    'good',
  ),
  row('doctor-collateral', 'more than a week is left', () => collateral(7 * DAY_MS + 1), 'good'),
  row('doctor-collateral', 'a week is left', () => collateral(7 * DAY_MS), 'warning'),
  row('doctor-collateral', 'collateral has expired', () => collateral(0), 'error'),
  row('doctor-join', 'a machine was refused a day ago', () => refusedJoin(DAY_MS), 'good'),
  row('doctor-join', 'a machine was refused less than a day ago', () => refusedJoin(DAY_MS - 1), 'warning'),
  row('doctor-join', 'a join request is pending', () => refusedJoin(0, 'pending'), 'good'),
  row(
    'doctor-etcd-learner',
    'the etcd of a learner started ten minutes ago',
    () => learner(10 * MINUTE_MS),
    'good',
  ),
  row(
    'doctor-etcd-learner',
    'the etcd of a learner started more than ten minutes ago',
    () => learner(10 * MINUTE_MS + 1),
    'warning',
    'n4',
  ),
  row(
    'doctor-etcd-learner',
    'the metrics of a learner do not tell when its etcd started',
    () => learner(),
    'unknown',
    'n4',
  ),
  row(
    'doctor-etcd-learner',
    'a learner belongs to no node',
    () => withEtcd({ members: [...fakeEtcd().members, { name: 'id-n9', isLearner: true }] }),
    'warning',
  ),
  row(
    'doctor-etcd-size',
    'a database uses 80% of its quota',
    () => withEtcd({ dbSizeBytes: 80, quotaBytes: 100 }),
    'good',
  ),
  row(
    'doctor-etcd-size',
    'a database uses 81% of its quota',
    () => withEtcd({ dbSizeBytes: 81, quotaBytes: 100 }),
    'warning',
  ),
  row(
    'doctor-etcd-unused',
    'half of a database is unused',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 512 * MIB, dbInUseBytes: 256 * MIB }) }),
    'good',
  ),
  row(
    'doctor-etcd-unused',
    'more than half of a database is unused',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 512 * MIB, dbInUseBytes: 255 * MIB }) }),
    'warning',
    'n2',
  ),
  row(
    'doctor-etcd-unused',
    'an unused database is smaller than the minimum size',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 256 * MIB - 1, dbInUseBytes: 0 }) }),
    'good',
  ),
  row(
    'doctor-etcd-unused',
    'an unused database has just the minimum size',
    () => withMetrics('n2', { stateEtcd: fakeMember({ dbSizeBytes: 256 * MIB, dbInUseBytes: 0 }) }),
    'warning',
  ),
  row(
    'doctor-fsync',
    'an fsync takes 10 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ fsync: { ms: 10, within: 16, total: 18 } }) }),
    'good',
  ),
  row(
    'doctor-fsync',
    'an fsync takes 11 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ fsync: { ms: 11, within: 16, total: 18 } }) }),
    'warning',
    'n2',
  ),
  row(
    'doctor-fsync',
    'nothing was written',
    () => withMetrics('n2', { stateEtcd: { hasLeader: true } }),
    'good',
  ),
  row(
    'doctor-latency',
    'a round trip takes 100 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ peerRoundTripMs: 100 }) }),
    'good',
  ),
  row(
    'doctor-latency',
    'a round trip takes 101 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ peerRoundTripMs: 101 }) }),
    'warning',
    'n2',
  ),
  row(
    'doctor-latency',
    'a round trip to one of two peers takes 101 ms',
    () => withMetrics('n2', { stateEtcd: fakeMember({ peers: [...PEERS, { id: 'b', roundTripMs: 101 }] }) }),
    'warning',
    'n2',
  ),
  row('doctor-pods', 'a pod has not been ready for five minutes', () => pods(5 * MINUTE_MS), 'good'),
  row(
    'doctor-pods',
    'a pod has not been ready for more than five minutes',
    () => pods(5 * MINUTE_MS + 1),
    'warning',
    'n4',
  ),
  row('doctor-pods', 'a pod has been failing for 30 s', () => pods(30_000, { isFailing: true }), 'good'),
  row(
    'doctor-pods',
    'a pod has been failing for more than 30 s',
    () => pods(30_001, { isFailing: true }),
    'warning',
    'n4',
  ),
  row('doctor-dns', 'one of two CoreDNS pods starts', () => secondDns({}), 'good'),
  row('doctor-dns', 'one of two CoreDNS pods fails', () => secondDns({ isFailing: true }), 'warning'),
  row('doctor-name-lookup', 'the DNS answers', () => lookup(''), 'good'),
  row(
    'doctor-name-lookup',
    'the DNS does not answer a node',
    () => lookup('10.96.0.10 does not answer'),
    'error',
    'n4',
  ),
  row(
    'doctor-name-lookup',
    'the node that had no answer is silent',
    () => lookup('10.96.0.10 does not answer', { health: 'silent' }),
    'good',
  ),
  row('doctor-webhook', 'the service of a required webhook has an endpoint', () => webhook(true, 1), 'good'),
  row('doctor-webhook', 'the service of a required webhook has no endpoint', () => webhook(true, 0), 'error'),
  row(
    'doctor-webhook',
    'the service of an optional webhook has no endpoint',
    () => webhook(false, 0),
    'warning',
  ),
  row(
    'doctor-chart',
    'the operator may not read releases',
    () => withKubernetes(() => ({ releases: undefined })),
    'unknown',
  ),
  row('doctor-webhook', 'the operator may not read webhooks', () => failures({}), 'unknown'),
  row(
    'doctor-api-service',
    'a server of the API is not available',
    () => failures({ apis: [{ name: 'v1beta1.metrics.k8s.io', why: 'MissingEndpoints' }] }),
    'error',
  ),
  row('doctor-api-service', 'the operator may not read API services', () => failures({}), 'unknown'),
  row(
    'doctor-deployment',
    'a quota forbids pods of a deployment',
    () =>
      failures({
        deployments: [
          { namespace: 'shop', name: 'web', wanted: 3, created: 1, why: 'FailedCreate: exceeded quota' },
        ],
      }),
    'warning',
  ),
  row('doctor-deployment', 'the operator may not read deployments', () => failures({}), 'unknown'),
  row('doctor-namespace', 'finalizers are left for 30 s', () => terminating(30_000, true), 'good'),
  row(
    'doctor-namespace',
    'finalizers are left for more than 30 s',
    () => terminating(30_001, true),
    'warning',
  ),
  row('doctor-namespace', 'pods are left for five minutes', () => terminating(5 * MINUTE_MS, false), 'good'),
  row(
    'doctor-namespace',
    'pods are left for more than five minutes',
    () => terminating(5 * MINUTE_MS + 1, false),
    'warning',
  ),
  row('doctor-namespace', 'the operator may not read namespaces', () => failures({}), 'unknown'),
  row(
    'doctor-budget',
    'a budget permits no eviction of healthy pods',
    () => budget({ allowed: 0 }),
    'warning',
  ),
  row(
    'doctor-budget',
    'a budget permits no eviction while a pod starts',
    () => budget({ allowed: 0, healthyPods: 1 }),
    'good',
  ),
  row(
    'doctor-budget',
    'a budget has no pods',
    () => budget({ allowed: 0, healthyPods: 0, expectedPods: 0 }),
    'good',
  ),
  row(
    'doctor-chart',
    'an installed chart has no release',
    () => withKubernetes(() => ({ releases: [] })),
    'error',
  ),
  row(
    'doctor-chart',
    'another program has changed a release',
    () => withRelease({ revision: 2, installedRevision: 1 }),
    'warning',
  ),
  row(
    'doctor-chart',
    'a release differs from cluster.yaml',
    () => withRelease({ isAsConfigured: false }),
    'warning',
  ),
  row(
    'doctor-chart',
    'a release is as `cluster init` installed it',
    () => withRelease({ revision: 2, installedRevision: 2, isAsConfigured: true }),
    'good',
  ),
  row(
    'doctor-chart',
    'the release of a chart has failed',
    () =>
      withKubernetes(({ releases }) => ({
        releases: releases?.map((each) => ({ ...each, status: 'failed' })),
      })),
    'warning',
  ),
  row(
    'doctor-skew',
    'an agent differs by one minor version',
    () => withNode('n2', { agentVersion: '0.2.0' }),
    'good',
  ),
  row(
    'doctor-skew',
    'an agent differs by two minor versions',
    () => withNode('n2', { agentVersion: '0.3.0' }),
    'error',
    'n2',
  ),
  row(
    'doctor-skew',
    'an agent has another major version',
    () => withNode('n2', { agentVersion: '1.1.0' }),
    'error',
    'n2',
  ),
  row(
    'doctor-skew',
    'a kubelet is three minor versions older',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.34.1' })),
      })),
    'good',
  ),
  row(
    'doctor-skew',
    'a kubelet is four minor versions older',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.33.1' })),
      })),
    'error',
    'n1',
  ),
  row(
    'doctor-skew',
    'a kubelet is newer than an API server',
    () =>
      withKubernetes(({ nodes }) => ({
        nodes: nodes.map((node) => ({ ...node, kubeletVersion: 'v1.38.0' })),
      })),
    'error',
    'n1',
  ),
  row(
    'doctor-machine-network',
    'the address of the node is on no interface',
    () => withNetwork({ addresses: [] }),
    'error',
    'n1',
  ),
  row(
    'doctor-machine-network',
    'no other control plane accepts a connection',
    () => withNetwork({ peers: [peer('n2', away()), peer('n3', away())] }),
    'error',
    'n1',
  ),
  row(
    'doctor-machine-network',
    'one of the other control planes accepts no connection',
    () => withNetwork({ peers: [peer('n2', away()), peer('n3')] }),
    'warning',
    'n1',
  ),
  row(
    'doctor-machine-network',
    'there is no other control plane',
    () => withNetwork({ peers: [] }),
    'good',
    'n1',
  ),
  row('doctor-machine-requirements', 'the machine swaps', () => withRequirement(false), 'error', 'n1'),
  row(
    'doctor-machine-requirements',
    'a requirement is only recommended',
    () => withRequirement(true),
    'warning',
    'n1',
  ),
  row(
    'doctor-machine-requirements',
    'the requirements could not be checked',
    () => factsOfMachine({ requirements: away() }),
    'unknown',
    'n1',
  ),
  row('doctor-machine-units', 'a unit has failed', () => withUnit({ active: 'failed' }), 'error', 'n1'),
  row('doctor-machine-units', 'a unit was stopped', () => withUnit({ active: 'inactive' }), 'error', 'n1'),
  row(
    'doctor-machine-units',
    'a unit starts again and again',
    () => withUnit({ active: 'activating' }),
    'error',
  ),
  row(
    'doctor-machine-units',
    'a unit does not exist',
    () => withUnit({ active: 'inactive', load: 'not-found' }),
    'error',
  ),
  row(
    'doctor-machine-units',
    'a unit that the node does not need was stopped',
    () => withUnit({ active: 'inactive', isNeeded: false }),
    'good',
  ),
  row(
    'doctor-machine-units',
    'a unit that the node does not need has failed',
    () => withUnit({ active: 'failed', isNeeded: false }),
    'warning',
  ),
  row('doctor-machine-units', 'systemd does not respond', () => factsOfMachine({ units: away() }), 'unknown'),
  row(
    'doctor-disk-space',
    'the machine says that 9% of its disk is free',
    () => factsOfMachine({ fileSystems: [{ name: '/', capacityBytes: 100, availableBytes: 9 }] }),
    'error',
    'n1',
  ),
  row(
    'doctor-certificate',
    'a certificate on the disk of the machine has expired',
    () => factsOfMachine({ certificates: [{ name: '/etc/x.crt', notAfterMs: NOW_MS }] }),
    'error',
    'n1',
  ),
  row(
    'doctor-etcd-member',
    'the etcd members of the machine do not respond',
    () => ({ ...factsOfMachine(), metrics: [{ node: 'n1', answer: { ok: true, value: { balancer: [] } } }] }),
    'error',
    'n1',
  ),
  row(
    'doctor-etcd-member',
    'a worker has no etcd members',
    () => ({
      ...factsOfMachine({ isControlPlane: false }),
      metrics: [{ node: 'n1', answer: { ok: true, value: { balancer: [] } } }],
    }),
    'good',
  ),
];

type Network = ReturnType<typeof fakeLocalFacts>['network'];

function peer(node: string, answer: Network['peers'][number]['answer'] = { ok: true, value: {} }) {
  return { node, endpoint: `192.0.2.${node.slice(1)}:9091`, answer };
}

function withNetwork(change: Partial<Network>): ClusterFacts {
  return factsOfMachine({ network: { ...fakeLocalFacts().network, ...change } });
}

function withRequirement(isWarning: boolean): ClusterFacts {
  const unmet = { code: 'preflight-swap', subject: 'swap', cause: 'swap is on', isWarning };
  return factsOfMachine({ requirements: { ok: true, value: [unmet] } });
}

function withUnit(change: object): ClusterFacts {
  const unit = {
    ...{ name: 'kubelet.service', isNeeded: true, load: 'loaded', active: 'active', sub: 'dead' },
    ...{ result: 'exit-code', restarts: 3 },
  };
  return factsOfMachine({ units: { ok: true, value: [{ ...unit, ...change }] } });
}

describe('the checks of a cluster', () => {
  test.each(ROWS)('$code is $want: $name', ({ code, facts, want, node }) => {
    const seen = judged(facts(), code);
    expect(seen?.grade ?? 'good').toBe(want);
    if (node !== undefined) expect(seen?.node).toBe(node);
    if (want !== 'good') expect(seen?.cause).not.toBe('');
    if (want === 'warning' || want === 'error') expect(seen?.fix).not.toBe('');
  });

  test('the fix of a problem of one node names this node', () => {
    const fixes = problemsFrom(diagnose(withNode('n4', { health: 'silent' }))).map(({ fix }) => fix);
    expect(fixes.join()).toContain('cluster node remove n4 --lost');
    expect(fixes.join()).not.toContain('NODE');
  });

  test('the table above has at least one row with a problem for every check', () => {
    const bad = ROWS.filter(({ want }) => want !== 'good').map(({ code }) => code);
    expect(DOCTOR_CHECKS.map(({ code }) => code).filter((code) => !bad.includes(code))).toEqual([]);
  });

  test('every check has a figure and a threshold for a healthy cluster, and grades it as good', () => {
    const findings = [...diagnose(fakeFacts()), ...diagnose(factsOfMachine())];
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
      ...{ joinServices: [], metrics: [], kubelets: [] },
      kubeconfig: { server: 'https://192.0.2.1:6443', answer: away() },
      hostNames: [{ name: 'api.prod.example', answer: away() }],
    });
    expect(
      diagnose(facts)
        .filter(({ grade }) => grade === 'good')
        .map(({ code }) => code),
    ).toEqual(['doctor-credentials', 'doctor-credentials']);
  });

  test('backups are not checked, and never good, in a cluster that schedules none', () => {
    const facts = unscheduled();
    expect(diagnose(facts).filter(({ layer }) => layer === 'backups')).toEqual([]);
    expect(notCheckedIn(facts)).toContainEqual(expect.objectContaining({ what: 'backups' }));
    expect(notCheckedIn(fakeFacts()).map(({ what }) => what)).not.toContain('backups');
  });

  const evidenceFigure = (facts: ClusterFacts) =>
    diagnose(facts).find(({ code, node }) => code === 'doctor-evidence' && node === 'n2');

  test('doctor-evidence shows the kind of evidence, and whether it covers the software', () => {
    const figures = [
      ['tpm', 'measured', 'TPM evidence accepted'],
      ['tpm', 'identity', 'TPM evidence accepted, software not attested'],
      ['sev-snp', 'measured', 'sev-snp evidence accepted'],
      ['machine-key', 'identity', 'machine key, no TPM evidence'],
    ] as const;
    for (const [variant, profile, figure] of figures)
      expect(evidenceFigure(acceptedEvidence(variant, profile))).toMatchObject({ grade: 'good', figure });
  });

  test('doctor-evidence names the registers that differ, and what each of them shows', () => {
    const mismatch = 'attestation-register-mismatch';
    const causes = [
      [refusedEvidence(mismatch, 'pcr4', 'pcr9'), /mismatch: pcr4, pcr9 differ .*outdated.*other software/],
      [refusedEvidence(mismatch, 'pcr15'), /mismatch: pcr15 does not show .*bound to this cluster$/],
      // The registers of evidence that is refused for another reason prove nothing.
      [refusedEvidence('tpm-quote-signature', 'pcr4'), /tpm-quote-signature: checking pcr4$/],
    ] as const;
    for (const [facts, cause] of causes) expect(evidenceFigure(facts)?.cause).toMatch(cause);
    expect(evidenceFigure(refusedEvidence(mismatch, 'pcr4'))?.fix).toContain('cluster verify n2');
  });

  test('doctor-evidence of a node that does not answer follows from its silence', () => {
    const { records } = withNode('n2', { health: 'silent' });
    expect(evidenceFigure({ ...evidenceOf(away()), records })?.followsFrom).toBe('doctor-node-silent');
  });

  test('doctor-etcd-learner shows how long the etcd of an old node has been a learner, not how old the node is', () => {
    const finding = diagnose(learner(MINUTE_MS)).find(({ code }) => code === 'doctor-etcd-learner');
    expect(finding).toMatchObject({ grade: 'good', figure: 'learner for at least 1m' });
  });

  test('doctor-pods does not count a pod that is still starting as ready', () => {
    const [finding] = diagnose(pods(MINUTE_MS)).filter(({ code }) => code === 'doctor-pods');
    expect(finding).toMatchObject({ grade: 'good', figure: '0 of 1 ready, 1 starting' });
  });

  test('doctor-certificate warns later if the configured lifetime of certificates is shorter', () => {
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

test('doctor-api-server tells what the agent of a node that responds knows about its API server', () => {
  const why = 'does not listen: unknown flag: --insecure-port (connect ECONNREFUSED)';
  const facts = (health: string): ClusterFacts => ({
    ...withNode('n2', { health, componentsNotReady: [{ name: 'kube-apiserver', why }] }),
    apiServers: [{ node: 'n2', answer: away() }],
  });
  expect(judged(facts('healthy'), 'doctor-api-server')?.cause).toContain(why);
  expect(judged(facts('silent'), 'doctor-api-server')?.cause).not.toContain(why);
});

test('doctor-etcd-member tells what the agent knows about a member that does not respond', () => {
  const why = 'does not start: panic: freepages: failed to get all reachable pages';
  const facts = {
    ...withMetrics('n2', { kubernetesEtcd: undefined }),
    records: withNode('n2', { machine: { services: [{ name: 'Kubernetes etcd', why }], problems: [] } })
      .records,
  };
  expect(judged(facts, 'doctor-etcd-member')?.cause).toBe(`the Kubernetes etcd member on n2 ${why}`);
});

test('doctor-pod-network names the one node that is cut off, not every node that misses it', () => {
  const all = gaps({ n4: ['n1', 'n2', 'n3'], n1: ['n4'], n2: ['n4'] });
  const found = diagnose(all).filter(({ code, grade }) => code === 'doctor-pod-network' && grade === 'error');
  expect(found.map(({ cause }) => cause)).toEqual([
    'pods on n4 do not reach pods on n1, n2, n3 (VXLAN, UDP port 8472)',
  ]);
});

test('doctor-pod-network names both ends of separate gaps once', () => {
  const all = gaps({ n1: ['n2'], n3: ['n4'], n4: ['n3'] });
  const found = diagnose(all).filter(({ code, grade }) => code === 'doctor-pod-network' && grade === 'error');
  expect(found.map(({ node, figure }) => [node, figure])).toEqual([
    ['n3', '1 do not answer'],
    ['n1', '1 do not answer'],
  ]);
});

test('doctor-mtu names the direction in which full-size packets are lost, or both directions', () => {
  const causes = (facts: ClusterFacts) =>
    diagnose(facts)
      .filter(({ code, grade }) => code === 'doctor-mtu' && grade === 'error')
      .map(({ cause }) => cause.replace(/ are lost.*/, ''));
  expect(causes(losses({ n4: ['n2'] }))).toEqual(['full-size packets from n4 to n2']);
  expect(causes(losses({ n1: ['n4'], n2: ['n4'] }))).toEqual(['full-size packets from n1, n2 to n4']);
  expect(causes(losses({ n4: ['n1', 'n2'], n1: ['n4'] }))).toEqual([
    'full-size packets between n4 and n1, n2',
  ]);
});

test('doctor-mtu shows at how many nodes full-size packets arrive, and passes over agents that do not try it', () => {
  const figures = (facts: ClusterFacts) =>
    diagnose(facts)
      .filter(({ code }) => code === 'doctor-mtu')
      .map(({ grade, figure }) => `${grade}: ${figure}`);
  const withPackets = (judged: number): Partial<NodeFacts> => ({
    machine: {
      ...{ services: [], problems: [] },
      podNetwork: { address: '10.244.1.0', unreachable: [], fullPackets: { lost: [], judged } },
    },
  });
  expect(figures(withNode('n1', withPackets(0)))[0]).toBe('good: not tried yet');
  expect(figures(withNode('n1', withPackets(1)))[0]).toBe('good: arrive at 1 other node');
  expect(figures(gaps({}))).toEqual(['good: not tried']);
});

test('doctor-name-lookup passes over agents that do not ask, and follows from CoreDNS without a ready pod', () => {
  const asked = (facts: ClusterFacts) =>
    diagnose(facts)
      .filter(({ code }) => code === 'doctor-name-lookup')
      .map(({ subject, figure, followsFrom }) => [subject, figure, followsFrom]);
  expect(asked(gaps({}))).toEqual([['name lookup', 'not asked', undefined]]);
  const dnsIsDown = { ...withoutReady('coredns'), records: lookup('10.96.0.10 refuses questions').records };
  expect(asked(dnsIsDown)).toContainEqual(['name lookup of n4', 'fails', 'doctor-dns']);
});

test('doctor-pod-network is good where no node has the network chart', () => {
  const none = Object.fromEntries(
    ['n1', 'n2', 'n3', 'n4'].map((name) => [name, { machine: { services: [], problems: [] } }]),
  );
  const found = diagnose(gaps({}, none)).filter(({ code }) => code === 'doctor-pod-network');
  expect(found).toMatchObject([{ grade: 'good', figure: 'not probed' }]);
});

test('doctor-clock names a worker, and the control plane that its clock differs from', () => {
  const found = judged(workerClock(-7 * MINUTE_MS), 'doctor-clock');
  expect(found).toMatchObject({ node: 'n4', cause: 'the clock of n4 is 7m behind n1' });
});

test('doctor-clock does not name a worker if only the clock of its control plane is wrong', () => {
  const found = diagnose(workerClock(-7 * MINUTE_MS, 7 * MINUTE_MS)).filter(
    ({ code }) => code === 'doctor-clock',
  );
  expect(found.map(({ subject, grade, figure }) => [subject, grade, figure])).toEqual([
    ['clock of n1', 'error', '7m ahead of the workstation'],
    ['clock of n4', 'good', '7m behind n1, whose clock is wrong'],
  ]);
});

test('doctor-clock names a worker whose clock is as wrong as that of its control plane', () => {
  const found = diagnose(workerClock(7 * MINUTE_MS, 7 * MINUTE_MS)).filter(
    ({ code }) => code === 'doctor-clock',
  );
  expect(found.map(({ subject, grade }) => [subject, grade])).toEqual([
    ['clock of n1', 'error'],
    ['clock of n4', 'error'],
  ]);
});

test('doctor-clock takes the smaller difference of a node that two curators know', () => {
  const at = (node: string, ms: number) => ({
    node,
    answer: { ok: true as const, value: { clocks: [{ nodeId: 'id-n4', ms }] } },
  });
  for (const curators of [
    [at('n1', -7 * MINUTE_MS), at('n2', -10)],
    [at('n2', -10), at('n1', -7 * MINUTE_MS)],
  ]) {
    const found = diagnose(fakeFacts({ curators })).find(({ subject }) => subject === 'clock of n4');
    expect(found).toMatchObject({ grade: 'good', figure: expect.stringContaining('behind n2') });
  }
});

test('doctor-latency has one figure for each pair of members, with the names of the nodes', () => {
  const facts = fakeFacts();
  const metrics = facts.metrics.map(({ node, answer }) => {
    if (!answer.ok || answer.value.stateEtcd === undefined) return { node, answer };
    const others = ['n1', 'n2', 'n3'].filter((name) => name !== node);
    const peers = others.map((name) => ({ id: `member-${name}`, roundTripMs: name === 'n1' ? 0.4 : 120 }));
    const stateEtcd = { ...answer.value.stateEtcd, id: `member-${node}`, peers };
    return { node, answer: { ok: true as const, value: { ...answer.value, stateEtcd } } };
  });
  const seen = diagnose({ ...facts, metrics }).filter(
    ({ code, subject }) => code === 'doctor-latency' && subject.startsWith('state'),
  );
  expect(seen.map(({ subject, figure, grade }) => [subject, figure, grade])).toEqual([
    ['state etcd of n1 to n2', 'median round trip at most 120 ms', 'warning'],
    ['state etcd of n1 to n3', 'median round trip at most 120 ms', 'warning'],
    ['state etcd of n2 to n1', 'median round trip at most 0.4 ms', 'good'],
    ['state etcd of n2 to n3', 'median round trip at most 120 ms', 'warning'],
    ['state etcd of n3 to n1', 'median round trip at most 0.4 ms', 'good'],
    ['state etcd of n3 to n2', 'median round trip at most 120 ms', 'warning'],
  ]);
});

test('doctor-clock attributes a clock that no curator reports to a curator that does not respond', () => {
  const found = diagnose(fakeFacts({ curators: [{ node: 'n1', answer: away() }] }));
  expect(found.find(({ subject }) => subject === 'clock of n4')).toMatchObject({
    ...{ grade: 'unknown', followsFrom: 'doctor-curator' },
  });
});

test('doctor-machine has the fix of the check that the agent names, and another one for a check of a newer agent', () => {
  const fixFor = (code: string) => judged(setting({ code }), 'doctor-machine')?.fix;
  expect(fixFor('preflight-sysctl')).toContain('sysctl -w');
  expect(fixFor('preflight-swap')).toMatch(/swapoff.*\/etc\/fstab\.$/);
  expect(fixFor('preflight-read-only')).toMatch(/dmesg.*replace a disk.*fsck.* writable\.$/);
  expect(fixFor('preflight-of-tomorrow')).toContain('cluster preflight --fix');
});

test('doctor-removal-unmerged names the node that knows, the member, and the command for its removal', () => {
  expect(judged(unmerged('n2'), 'doctor-removal-unmerged')).toMatchObject({
    cause: 'n4 knows that n2 was removed before the restore',
    fix: 'If n2 must not be a member, run `cluster node remove n2 --lost`.',
  });
});

test('doctor-etcd-content names the member that differs and those that agree, and what to do', () => {
  const of = (facts: ClusterFacts) =>
    diagnose(facts).filter(
      ({ code, subject }) => code === 'doctor-etcd-content' && subject.startsWith('Kubernetes'),
    );
  expect(of(fakeFacts())).toMatchObject([
    { subject: 'Kubernetes etcd', figure: '3 of 3 members agree, compared 12m ago' },
  ]);
  expect(of(withContents({ n3: DIFFERS }))).toMatchObject([
    {
      ...{ subject: 'Kubernetes etcd of n2', node: 'n2', figure: 'differs, compared 12m ago' },
      cause: 'the Kubernetes etcd member of n2 has other content than n1 and n3',
      fix: expect.stringContaining('`cluster node set-role n2 --worker`'),
    },
  ]);
  const split = { agreeing: [], differing: ['id-n1', 'id-n2'], notCompared: ['id-n3'] };
  const [finding] = of(withContents({ n1: split }));
  expect(finding?.cause).toBe(
    'the Kubernetes etcd members of n1 and n2 differ from each other, and no majority agrees',
  );
  expect(finding?.fix).not.toContain('set-role');
  const members = ['id-n1', 'id-n2'].map((name) => ({ name, isLearner: false }));
  const two = factsWithRecords({ kubernetesEtcd: fakeEtcd({ members }) });
  expect(of(two)).toMatchObject([{ figure: '2 of 2 members agree, compared 12m ago' }]);
});

test('a check names twenty objects each, and counts the others', () => {
  const deployments = Array.from({ length: 22 }, (_, index) => {
    return { namespace: 'shop', name: `web-${index}`, wanted: 2, created: 0, why: 'exceeded quota' };
  });
  const found = diagnose(failures({ deployments })).filter(({ code }) => code === 'doctor-deployment');
  expect(found).toHaveLength(21);
  expect(found.at(-1)).toMatchObject({ grade: 'warning', cause: '2 more deployments do not have all pods' });
});

describe('doctor-kubelet', () => {
  const cutOff = (changes: Partial<NodeFacts>): string | undefined => {
    const { kubernetes } = withKubernetes(({ nodes }) => ({
      nodes: nodes.map((node) =>
        node.name === 'n4' ? { ...node, isReady: false, why: 'Kubelet stopped posting node status.' } : node,
      ),
    }));
    const { records } = withNode('n4', changes);
    const kubelets = [{ node: 'n4', answer: away('kube-unreachable') }];
    return judged({ ...fakeFacts({ kubelets }), kubernetes, records }, 'doctor-kubelet')?.cause;
  };

  test('names the way to the API servers if the kubelet answers its agent', () =>
    expect(cutOff({})).toBe(
      'the kubelet of n4 runs, and does not reach an API server (Kubelet stopped posting node status.): dialing 192.0.2.2: timed out',
    ));

  test.each([
    { name: 'the node is silent', changes: { health: 'silent' } },
    { name: 'its agent does not report services', changes: { machine: undefined } },
    {
      name: 'its agent does not reach it either',
      changes: { machine: { services: [{ name: 'kubelet', why: 'does not start' }], problems: [] } },
    },
  ])('does not if $name', ({ changes }) => expect(cutOff(changes)).toMatch(/does not respond: dialing/));
});

test('doctor-machine-requirements has the fix of the check that the machine does not pass', () => {
  expect(judged(withRequirement(false), 'doctor-machine-requirements')?.fix).toContain('swapoff');
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

  test('does not attribute a problem of one node to a silent other node', () => {
    const facts = { ...silent, apiServers: [{ node: 'n2', answer: away() }] };
    const problems = problemsFrom(diagnose(facts));
    expect(problems.find(({ code }) => code === 'doctor-api-server')?.followsFrom).toBeUndefined();
  });

  test('attributes copies of backups that a node does not report to its silence', () => {
    const { records } = withNode('n2', { health: 'silent' });
    const problems = problemsFrom(diagnose({ ...silentCopies(10 * MINUTE_MS + 1), records }));
    expect(problems.find(({ code }) => code === 'doctor-backup-copies')?.followsFrom).toBe(
      'doctor-node-silent',
    );
  });

  test('attributes a clock that was not measured to a failure of the API server on the same node, which a later check reports', () => {
    const facts = fakeFacts({
      clocks: [{ node: 'n2', offset: away() }],
      apiServers: [{ node: 'n2', answer: away() }],
    });
    const finding = diagnose(facts).find(({ code }) => code === 'doctor-clock');
    expect(finding?.followsFrom).toBe('doctor-api-server');
  });

  test('attributes the silence of a kubelet to its service that does not start, which comes first', () => {
    const facts = { ...kubeletFails({}), kubelets: [{ node: 'n4', answer: away('kube-unreachable') }] };
    const [first, ...others] = problemsFrom(diagnose(facts));
    expect(first?.cause).toBe('the kubelet of n4 does not start: unknown flag: --network-plugin');
    expect(others.find(({ code }) => code === 'doctor-kubelet')?.followsFrom).toBe('doctor-host-service');
  });

  test('attributes a kubelet that does not start to a setting of its machine', () => {
    const [first, ...others] = problemsFrom(diagnose(setting({})));
    expect(first?.cause).toMatch(/^on node n4, net\.ipv4\.ip_forward is 0, must be 1/);
    expect(others.find(({ code }) => code === 'doctor-host-service')?.followsFrom).toBe('doctor-machine');
  });

  test.each(['doctor-etcd-member', 'doctor-api-server', 'doctor-kubelet', 'doctor-agent'])(
    'attributes %s to a read-only file system of the same node',
    (code) => {
      const problem = { ...READ_ONLY, isWarning: false };
      const facts = {
        ...withNode('n2', {
          machine: { services: [], problems: [problem] },
          deadRunnables: ['root.growth'],
        }),
        ...{ metrics: withMetrics('n2', { kubernetesEtcd: undefined }).metrics },
        ...{ apiServers: [{ node: 'n2', answer: away() }], kubelets: [{ node: 'n2', answer: away() }] },
      };
      const [first, ...others] = problemsFrom(diagnose(facts));
      expect(first?.cause).toBe(`on node n2, ${READ_ONLY.cause}`);
      expect(others.find((each) => each.code === code)?.followsFrom).toBe('doctor-machine');
    },
  );

  test.each(['doctor-api-server', 'doctor-kubelet', 'doctor-etcd-member'])(
    'attributes %s to an expired certificate of the same node, which comes first with its path',
    (code) => {
      const facts = {
        ...withMetrics('n2', { kubernetesEtcd: undefined }),
        records: certificates(-DAY_MS, '/etc/kubernetes/pki/apiserver.crt').records,
        apiServers: [{ node: 'n2', answer: away() }],
        kubelets: [{ node: 'n2', answer: away('kube-unreachable') }],
      };
      const [first, ...others] = problemsFrom(diagnose(facts));
      expect(first?.cause).toMatch(/^\/etc\/kubernetes\/pki\/apiserver\.crt of n2 expired/);
      expect(others.find((each) => each.code === code)?.followsFrom).toBe('doctor-certificate');
    },
  );

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
      name: 'a failed etcd member before the curator of the same node',
      facts: {
        ...withMetrics('n2', { stateEtcd: undefined }),
        curators: [{ node: 'n2', answer: away('etcd-unavailable') }],
      },
      want: 'doctor-etcd-member',
    },
    {
      name: 'an error before a warning, although the check with the warning comes first',
      facts: { ...withoutReady('coredns'), ...{ clocks: clocks(2 * MINUTE_MS).clocks } },
      want: 'doctor-dns',
    },
  ];
  test.each(cases)('names $name', ({ facts, want }) => {
    expect(firstOf(facts)?.code).toBe(want);
  });

  test('judges facts of a machine only with checks that need no cluster, and says what is not checked', () => {
    const facts = factsOfMachine();
    expect(new Set(diagnose(facts).map(({ grade }) => grade))).toEqual(new Set(['good']));
    expect(notCheckedIn(facts).map(({ what }) => what)).toEqual([expect.stringContaining('other nodes')]);
  });

  test('names what the machine sees before what follows from it', () => {
    const stopped = withUnit({ name: 'cluster-etcd-state.service', active: 'inactive' });
    const facts = {
      ...stopped,
      metrics: [{ node: 'n1', answer: { ok: true as const, value: { balancer: [] } } }],
      apiServers: [{ node: 'n1', answer: away() }],
    };
    const problems = problemsFrom(diagnose(facts));
    expect(problems.map(({ code, followsFrom }) => [code, followsFrom])).toEqual([
      ['doctor-machine-units', undefined],
      ['doctor-etcd-member', 'doctor-machine-units'],
      ['doctor-etcd-member', 'doctor-machine-units'],
      ['doctor-api-server', 'doctor-machine-units'],
    ]);
    const { local } = withNetwork({ addresses: [] });
    const cut = problemsFrom(diagnose({ ...facts, local: { ...stopped.local!, network: local!.network } }));
    expect(cut.map(({ followsFrom }) => followsFrom)).toEqual([
      undefined,
      ...Array.from({ length: 4 }, () => 'doctor-machine-network'),
    ]);
  });

  test('with names of nodes, omits the findings about other nodes and keeps the findings about the whole cluster', () => {
    const findings = diagnose(withNode('n2', { health: 'silent' }), ['n4']);
    expect(findings.some(({ node }) => node !== undefined && node !== 'n4')).toBe(false);
    expect(findings.some(({ code }) => code === 'doctor-dns')).toBe(true);
  });
});
