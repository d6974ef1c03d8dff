import { describe, expect, test } from '@jest/globals';
import {
  factsOfMachine,
  factsWithRecords,
  fakeContent,
  fakeEtcd,
  fakeFacts,
  fakeMember,
  fakeNode,
  NOW_MS,
} from '../fake-facts.ts';
import {
  backupDrawbackOf,
  backupGateOf,
  gateOf,
  recoveryGateOf,
  type ClusterFacts,
  type GatedChange,
} from '../index.ts';

/** Control planes n1 to n3 and the worker n4, with this report of n1 about the Kubernetes etcd. */
function factsWith(report: Parameters<typeof fakeContent>[0], etcd: Parameters<typeof fakeEtcd>[0] = {}) {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) =>
    name === 'n1'
      ? fakeNode(name, { etcdContents: { state: fakeContent(), kubernetes: fakeContent(report) } })
      : fakeNode(name),
  );
  return factsWithRecords({ nodes, kubernetesEtcd: fakeEtcd(etcd) });
}

const DIFFERS = { agreeing: ['id-n1', 'id-n3'], differing: ['id-n2'], comparedMs: factsWith({}).takenMs };
const NO_MAJORITY = { ...DIFFERS, agreeing: [], differing: ['id-n1', 'id-n2', 'id-n3'] };
const gone = (node: string): GatedChange => ({ node, action: 'member-leaves' });
const joins = (node: string): GatedChange => ({ node, action: 'member-joins' });
const restarts = (node: string): GatedChange => ({ node, action: 'member-restarts' });
const ROTATION: GatedChange = { node: '', action: 'all-members-restart' };
/** A machine that is approved as a further control plane. */
const APPROVED = joins('');

/** Facts in which nodes differ from healthy ones. */
function factsOfNodes(changes: Readonly<Record<string, Parameters<typeof fakeNode>[1]>>): ClusterFacts {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => fakeNode(name, changes[name]));
  return factsWithRecords({ nodes });
}

const problem = (code: string, subject: string) => ({
  code,
  subject,
  cause: `${subject} is wrong`,
  isWarning: false,
});
const machineWith = (...problems: ReturnType<typeof problem>[]) => ({ machine: { services: [], problems } });
const READ_ONLY = machineWith(problem('preflight-read-only', '/var/lib/cluster'));
const SWAP = machineWith(problem('preflight-swap', 'swap /dev/sdb'));
const SILENT = { health: 'silent' };

/** Facts in which the disk of a node has this much of its space or its inodes free. */
function factsWithDisk(
  of: string,
  free: { readonly bytes?: number; readonly of?: number; readonly inodes?: number },
): ClusterFacts {
  const facts = fakeFacts();
  const disk = { name: 'kubelet disk', capacityBytes: free.of ?? 100, availableBytes: free.bytes ?? 60 };
  const fileSystems = [{ ...disk, inodes: 100, inodesFree: free.inodes ?? 60 }];
  const kubelets = facts.kubelets.map((each) =>
    each.node === of ? { node: of, answer: { ok: true as const, value: { fileSystems } } } : each,
  );
  return { ...facts, kubelets };
}

/** Facts in which the clock of n1 is ahead of the workstation. */
function factsWithClock(ms: number): ClusterFacts {
  const { clocks, ...facts } = fakeFacts();
  const [, ...others] = clocks;
  return { ...facts, clocks: [{ node: 'n1', offset: { ok: true, value: { ms } } }, ...others] };
}

/** Facts in which the Kubernetes etcd has a further member on n4, a learner for this time. */
function factsWithLearner(forMs: number): ClusterFacts {
  const members = [...fakeEtcd().members, { name: 'id-n4', isLearner: true }];
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => fakeNode(name, { isControlPlane: true }));
  const facts = factsWithRecords({ nodes, kubernetesEtcd: fakeEtcd({ members }) });
  const kubernetesEtcd = fakeMember({ startedMs: NOW_MS - forMs });
  const metrics = facts.metrics.map((each) =>
    each.node === 'n4' && each.answer.ok
      ? { node: 'n4', answer: { ok: true as const, value: { ...each.answer.value, kubernetesEtcd } } }
      : each,
  );
  return { ...facts, metrics };
}

/** Facts in which the Kubernetes etcd does not respond on n2, whose agent sends heartbeats. */
function factsWithoutMember(): ClusterFacts {
  const facts = fakeFacts();
  const metrics = facts.metrics.map((each) => {
    if (each.node !== 'n2' || !each.answer.ok) return each;
    const { kubernetesEtcd: _, ...value } = each.answer.value;
    return { node: 'n2', answer: { ok: true as const, value } };
  });
  return { ...facts, metrics };
}

const MINUTE_MS = 60_000;
const GIB = 1024 ** 3;

describe('gateOf()', () => {
  const rows = [
    { name: 'the members agree', facts: factsWith({}), change: gone('n3'), want: undefined },
    {
      name: 'another member is damaged',
      facts: factsWith(DIFFERS),
      change: gone('n3'),
      want: /n2 has other/,
    },
    { name: 'the node is named by its ID', facts: factsWith(DIFFERS), change: gone('id-n3'), want: /n2 has/ },
    { name: 'its own member is damaged', facts: factsWith(DIFFERS), change: gone('n2'), want: undefined },
    { name: 'a worker is removed', facts: factsWith(DIFFERS), change: gone('n4'), want: undefined },
    {
      name: 'a worker becomes a member',
      facts: factsWith(DIFFERS),
      change: joins('n4'),
      want: /n2 has other/,
    },
    { name: 'a member stays one', facts: factsWith(DIFFERS), change: joins('n3'), want: undefined },
    { name: 'no majority agrees', facts: factsWith(NO_MAJORITY), change: gone('n2'), want: /no majority/ },
    { name: 'an etcd is full', facts: factsWith({}, { isFull: true }), change: gone('n3'), want: /is full/ },
    { name: 'the node is not known', facts: factsWith(DIFFERS), change: gone('n9'), want: /n2 has other/ },
    {
      name: 'the records cannot be read',
      facts: fakeFacts({ records: { ok: false, error: 'away', codes: [] } }),
      change: gone('n3'),
      want: undefined,
    },
  ];
  test.each(rows)('$name', ({ facts, change, want }) => {
    const cause = gateOf(facts, change)?.cause;
    if (want === undefined) expect(cause).toBeUndefined();
    else expect(cause).toMatch(want);
  });
});

describe('gateOf() by the check that refuses', () => {
  const lostOne = factsOfNodes({ n3: SILENT });
  const justJoined = factsOfNodes({ n3: { ...SILENT, createdMs: NOW_MS - MINUTE_MS } });
  const corrupt = factsWith({}, { isCorrupt: true });
  const four = fakeEtcd({
    members: ['n1', 'n2', 'n3', 'n4'].map((name) => ({ name: `id-${name}`, isLearner: false })),
  });
  const fourMembers = factsWithRecords({
    nodes: ['n1', 'n2', 'n3', 'n4'].map((name) =>
      fakeNode(name, { isControlPlane: true, ...(name === 'n4' && SILENT) }),
    ),
    ...{ stateEtcd: four, kubernetesEtcd: four },
  });
  const rows: readonly {
    readonly name: string;
    readonly facts: ClusterFacts;
    readonly change: GatedChange;
    readonly want: string | undefined;
  }[] = [
    { name: 'a further control plane joins', facts: fakeFacts(), change: APPROVED, want: undefined },
    { name: 'one joins while a voter is lost', facts: lostOne, change: APPROVED, want: 'doctor-etcd-quorum' },
    { name: 'one joins after another one just did', facts: justJoined, change: APPROVED, want: undefined },
    {
      name: 'one joins while a learner is stuck',
      facts: factsWithLearner(30 * MINUTE_MS),
      change: APPROVED,
      want: 'doctor-etcd-learner',
    },
    {
      name: 'one joins while a learner catches up',
      facts: factsWithLearner(MINUTE_MS),
      change: APPROVED,
      want: undefined,
    },
    {
      name: 'one joins while a clock is wrong',
      facts: factsWithClock(600_000),
      change: APPROVED,
      want: 'doctor-clock',
    },
    {
      name: 'one joins while a clock drifts',
      facts: factsWithClock(90_000),
      change: APPROVED,
      want: undefined,
    },
    {
      name: 'one joins while a disk is full',
      facts: factsWithDisk('n2', { bytes: 5 }),
      change: APPROVED,
      want: 'doctor-disk-space',
    },
    {
      name: 'one joins while the disk of a worker is full',
      facts: factsWithDisk('n4', { bytes: 5 }),
      change: APPROVED,
      want: undefined,
    },
    {
      name: 'one joins while a large disk has room for etcd',
      facts: factsWithDisk('n2', { bytes: 100 * GIB, of: 2_000 * GIB }),
      change: APPROVED,
      want: undefined,
    },
    {
      name: 'a worker with a full disk joins',
      facts: factsWithDisk('n4', { bytes: 5 }),
      change: joins('n4'),
      want: 'doctor-disk-space',
    },
    {
      name: 'one joins while inodes are used up',
      facts: factsWithDisk('n2', { inodes: 2 }),
      change: APPROVED,
      want: 'doctor-disk-inodes',
    },
    {
      name: 'one joins while a disk is read-only',
      facts: factsOfNodes({ n2: READ_ONLY }),
      change: APPROVED,
      want: 'doctor-machine',
    },
    {
      name: 'one joins while a node has swap',
      facts: factsOfNodes({ n2: SWAP }),
      change: APPROVED,
      want: undefined,
    },
    {
      name: 'one joins while the alarm CORRUPT is active',
      facts: corrupt,
      change: APPROVED,
      want: 'doctor-etcd-corrupt',
    },
    {
      name: 'a member leaves another whose disk is read-only',
      facts: factsOfNodes({ n2: READ_ONLY }),
      change: gone('n3'),
      want: 'doctor-machine',
    },
    {
      name: 'the member with the read-only disk leaves',
      facts: factsOfNodes({ n2: READ_ONLY }),
      change: gone('n2'),
      want: undefined,
    },
    {
      name: 'a lost member leaves while a disk is read-only',
      facts: factsOfNodes({ n2: READ_ONLY, n3: SILENT }),
      change: gone('n3'),
      want: undefined,
    },
    {
      name: 'a member leaves another whose disk is full',
      facts: factsWithDisk('n2', { bytes: 5 }),
      change: gone('n3'),
      want: 'doctor-disk-space',
    },
    {
      name: 'a member leaves while a clock is wrong',
      facts: factsWithClock(600_000),
      change: gone('n3'),
      want: undefined,
    },
    {
      name: 'a good member leaves while another is lost',
      facts: lostOne,
      change: gone('n2'),
      want: 'doctor-etcd-quorum',
    },
    { name: 'the lost member leaves', facts: lostOne, change: gone('n3'), want: undefined },
    {
      name: 'one of four members leaves while another is lost',
      facts: fourMembers,
      change: gone('n2'),
      want: undefined,
    },
    {
      name: 'one of four members restarts while another is lost',
      facts: fourMembers,
      change: restarts('n2'),
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'a good member restarts while an etcd on another does not respond',
      facts: factsWithoutMember(),
      change: restarts('n3'),
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'the node whose etcd does not respond restarts',
      facts: factsWithoutMember(),
      change: restarts('n2'),
      want: undefined,
    },
    { name: 'a member restarts', facts: fakeFacts(), change: restarts('n3'), want: undefined },
    {
      name: 'a worker restarts while a disk is full',
      facts: factsWithDisk('n2', { bytes: 5 }),
      change: restarts('n4'),
      want: undefined,
    },
    {
      name: 'the damaged member leaves while its alarm is active',
      facts: factsWith(DIFFERS, { isCorrupt: true }),
      change: gone('n2'),
      want: undefined,
    },
    {
      name: 'another member leaves while the alarm is active',
      facts: corrupt,
      change: gone('n3'),
      want: 'doctor-etcd-corrupt',
    },
    { name: 'keys are replaced', facts: fakeFacts(), change: ROTATION, want: undefined },
    { name: 'keys are replaced while a voter is lost', facts: lostOne, change: ROTATION, want: undefined },
    {
      name: 'keys are replaced without a leader',
      facts: factsWith({}, { hasLeader: false }),
      change: ROTATION,
      want: 'doctor-etcd-quorum',
    },
    {
      name: 'keys are replaced while a clock is wrong',
      facts: factsWithClock(-600_000),
      change: ROTATION,
      want: 'doctor-clock',
    },
    {
      name: 'keys are replaced while a disk is full',
      facts: factsWithDisk('n1', { bytes: 5 }),
      change: ROTATION,
      want: 'doctor-disk-space',
    },
  ];
  test.each(rows)('$name: $want', ({ facts, change, want }) => {
    expect(gateOf(facts, change)?.code).toBe(want);
  });

  test('names the quorum that etcd has now, and the one that it would have', () => {
    expect(gateOf(lostOne, gone('n2'))?.cause).toBe(
      'the state etcd tolerates no further failure: 2 of 3 voters are healthy; without n2, the state etcd has 1 healthy voter and needs 2',
    );
  });
});

describe('backupGateOf()', () => {
  test.each([
    { name: 'its own member is damaged', facts: factsWith(DIFFERS), node: 'n2', want: /n2 has other/ },
    { name: 'another member is damaged', facts: factsWith(DIFFERS), node: 'n3', want: undefined },
    { name: 'no majority agrees', facts: factsWith(NO_MAJORITY), node: 'n3', want: /no majority/ },
    { name: 'an etcd is full', facts: factsWith({}, { isFull: true }), node: 'n3', want: undefined },
  ])('$name', ({ facts, node, want }) => {
    const cause = backupGateOf(facts, node)?.cause;
    if (want === undefined) expect(cause).toBeUndefined();
    else expect(cause).toMatch(want);
  });
});

describe('backupDrawbackOf()', () => {
  test.each([
    { name: 'nothing is wrong', facts: fakeFacts(), want: undefined },
    { name: 'its disk is full', facts: factsWithDisk('n2', { bytes: 5 }), want: 'doctor-disk-space' },
    { name: 'the disk of another one is full', facts: factsWithDisk('n3', { bytes: 5 }), want: undefined },
    { name: 'its disk is read-only', facts: factsOfNodes({ n2: READ_ONLY }), want: 'doctor-machine' },
    { name: 'an etcd on it does not respond', facts: factsWithoutMember(), want: 'doctor-etcd-member' },
  ])('$name', ({ facts, want }) => {
    expect(backupDrawbackOf(facts, 'n2')?.code).toBe(want);
  });
});

describe('recoveryGateOf()', () => {
  const disk = (availableBytes: number, capacityBytes = 100) => [
    { name: '/var/lib/cluster', capacityBytes, availableBytes },
  ];
  const unmet = (...codes: string[]) => ({
    requirements: { ok: true as const, value: codes.map((code) => problem(code, 'the machine')) },
  });
  test.each([
    { name: 'nothing is wrong', facts: factsOfMachine(), want: undefined },
    { name: 'its disk is full', facts: factsOfMachine({ fileSystems: disk(5) }), want: 'doctor-disk-space' },
    {
      name: 'its large disk has room for etcd',
      facts: factsOfMachine({ fileSystems: disk(100 * GIB, 2_000 * GIB) }),
      want: undefined,
    },
    { name: 'its disk is nearly full', facts: factsOfMachine({ fileSystems: disk(12) }), want: undefined },
    {
      name: 'its disk is read-only',
      facts: factsOfMachine(unmet('preflight-swap', 'preflight-read-only')),
      want: 'doctor-machine-requirements',
    },
    { name: 'it has swap', facts: factsOfMachine(unmet('preflight-swap')), want: undefined },
    { name: 'the facts are not those of a machine', facts: fakeFacts(), want: undefined },
  ])('$name', ({ facts, want }) => {
    expect(recoveryGateOf(facts)?.code).toBe(want);
  });
});
