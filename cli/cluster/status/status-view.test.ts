import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeSchema, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { KeysView } from './keys-view.ts';
import type { NodeView } from './node-view.ts';
import {
  chartsLines,
  curatorLines,
  kubernetesEtcdFrom,
  problemsOf,
  quorumFrom,
  type CuratorPart,
} from './status-view.ts';

const NOW = 1_000_000_000;

function node(name: string, over: Partial<NodeView> = {}): NodeView {
  return {
    id: name,
    name,
    roles: ['control-plane'],
    state: 'up',
    health: 'healthy',
    address: '',
    agentVersion: '',
    kubernetesVersion: '',
    labels: {},
    createdMs: 0,
    lastError: undefined,
    certificates: [],
    expiry: undefined,
    troubles: [],
    oldDiskMs: undefined,
    silentSinceMs: undefined,
    partsNotReady: [],
    machine: undefined,
    directories: [],
    ...over,
  };
}

function partOf(
  nodes: readonly NodeView[],
  { members = nodes.length, ...asked }: { members?: number; silentVoters?: string[] } = {},
): CuratorPart {
  const sizes = { dbSizeBytes: 1, quotaBytes: 100 };
  const etcd = { ...sizes, hasLeader: true, isFull: false, isCorrupt: false, members, learners: 0, ...asked };
  return {
    name: 'c',
    createdMs: 0,
    etcd,
    kubernetesEtcd: { ...etcd, silentVoters: [] },
    quorum: quorumFrom(etcd, nodes),
    pendingJoins: 0,
    nodes,
  };
}

const textOf = (part: CuratorPart, label: string): string | undefined =>
  curatorLines({ ok: true, value: part }, NOW).find(([each]) => each === label)?.[1];

describe('the line of charts', () => {
  const release = (name: string, status = 'deployed', namespace = 'web') => ({
    namespace,
    name,
    status,
    revision: 1,
  });
  test.each([
    { name: 'is missing for a caller who may not list them', charts: undefined, want: [] },
    { name: 'shows <none> if no chart is installed', charts: [], want: ['<none>'] },
    {
      name: 'shows any status but "deployed", and the namespaces of charts that have the same name',
      charts: [
        release('hello'),
        release('shop', 'failed'),
        release('a\u001b'),
        release('x'),
        release('x', 'deployed', 'b'),
      ],
      want: ['hello, shop (failed), a?, web/x, b/x'],
    },
  ])('$name', ({ charts, want }) => {
    const value = { server: '', nodes: [], pods: { total: 0, notReady: [] }, charts };
    expect(chartsLines({ ok: true, value }).map(([, text]) => text)).toEqual(want);
  });
});

describe('the quorum line', () => {
  test.each([
    { voters: 1, silent: 0, want: '1 of 1 voter needed, 1 healthy; tolerates no failures', isLast: false },
    { voters: 3, silent: 0, want: '2 of 3 voters needed, 3 healthy; tolerates 1 failure', isLast: false },
    { voters: 3, silent: 1, want: '2 of 3 voters needed, 2 healthy; tolerates no failures', isLast: true },
    { voters: 3, silent: 2, want: '2 of 3 voters needed, 1 healthy; quorum lost', isLast: true },
    { voters: 5, silent: 1, want: '3 of 5 voters needed, 4 healthy; tolerates 1 failure', isLast: false },
  ])(
    'voters: $voters, of which not responding: $silent; shown as “$want”',
    ({ voters, silent, want, isLast }) => {
      const nodes = Array.from({ length: voters }, (_, i) =>
        node(`n${i}`, { health: i < silent ? 'silent' : 'healthy' }),
      );
      const part = partOf(nodes);
      expect(textOf(part, 'quorum')).toBe(want);
      expect(problemsOf(part, undefined, NOW).some((each) => each.startsWith('etcd tolerates no'))).toBe(
        isLast,
      );
    },
  );

  test('counts a voter that does not answer, although its node still counts as healthy', () => {
    const nodes = ['n0', 'n1', 'n2'].map((name) => node(name));
    const part = partOf(nodes, { silentVoters: ['n2'] });
    expect(textOf(part, 'quorum')).toBe('2 of 3 voters needed, 2 healthy; tolerates no failures');
    expect(problemsOf(part, undefined, NOW)).toEqual([
      'the state etcd member of node n2 does not answer',
      'etcd tolerates no further failure: 2 of 3 voters are healthy',
    ]);
  });

  test('counts a voter that answers, although its node is silent, and names a silent node once', () => {
    const nodes = ['n0', 'n1', 'n2'].map((name) => node(name, name === 'n2' ? { health: 'silent' } : {}));
    const answering = partOf(nodes, { silentVoters: [] });
    expect(textOf(answering, 'quorum')).toBe('2 of 3 voters needed, 3 healthy; tolerates 1 failure');
    const down = problemsOf(partOf(nodes, { silentVoters: ['n2'] }), undefined, NOW);
    expect(down.filter((each) => each.includes('n2'))).toEqual(['node n2 is not responding']);
  });

  test('the quorum is shown as lost only if a curator responds but its etcd does not', () => {
    const lost = curatorLines(
      { ok: false, error: 'why', codes: ['cluster-curator-unreachable', 'etcd-unavailable'] },
      NOW,
    );
    expect(lost[0]).toEqual(['quorum', expect.stringMatching(/^LOST/)]);
    const away = curatorLines({ ok: false, error: 'why', codes: ['cluster-curator-unreachable'] }, NOW);
    expect(away).toEqual([['curator', 'not reached: why']]);
  });
});

test.each([
  { name: 'from a curator of a version without key rotation', phase: undefined, want: undefined },
  { name: 'while no rotation runs', phase: 'done', want: undefined },
  {
    name: 'while a rotation runs',
    phase: 'refresh',
    want: 'phase 5 of 6: refreshing credentials of kubelets and pods, encrypting secrets with the new key, for 2m5s',
  },
  { name: 'in a phase that only a newer version knows', phase: 'x', want: 'phase x, for 2m5s' },
])('the line “key rotation” $name: $want (undefined: no line)', ({ phase, want }) => {
  const keys = phase === undefined ? undefined : keysOf(phase);
  expect(textOf({ ...partOf([node('n1')]), keys }, 'key rotation')).toBe(want);
});

function keysOf(phase: string): KeysView {
  const phaseSinceMs = NOW - 125_000;
  const asked = { startedMs: 0, phaseSinceMs, startedBy: '', reason: '' };
  return { generation: 2, phase, isDone: phase === 'done', ...asked, awaited: [], needsOwner: false };
}

test('the certificate that expires first is shown; an expired one is a problem', () => {
  const hour = 3_600_000;
  const nodes = [
    node('n1', { expiry: { certificate: 'node', notAfterMs: NOW + 5 * hour } }),
    node('n2', { expiry: { certificate: 'kubelet', notAfterMs: NOW + 2 * hour } }),
  ];
  expect(textOf(partOf(nodes), 'next certificate expiry')).toBe(
    'kubelet of n2 expires in 2h; its agent renews it before',
  );
  expect(problemsOf(partOf(nodes), undefined, NOW)).toEqual([]);
  expect(problemsOf(partOf(nodes), undefined, NOW + 3 * hour)).toEqual([
    'certificate kubelet of node n2 expired 1h ago',
  ]);
});

const kept = (...protections: string[]): Partial<NodeView> => ({
  directories: protections.map((protection, at) => ({ path: `/d${at}`, protection })),
});

test.each([
  { name: 'agents of an older version', given: [node('n1')], want: undefined },
  {
    name: 'encrypted nodes',
    given: [node('n1', kept('encrypted')), node('n2', kept('encrypted', 'memory'))],
    want: 'encrypted on 2 nodes',
  },
  {
    name: 'a directory in the clear',
    given: [node('n1', kept('encrypted', 'clear')), node('n2', kept('encrypted'))],
    want: 'in the clear on 1 of 2 nodes: n1',
  },
  {
    name: 'many nodes in the clear',
    given: [1, 2, 3, 4, 5, 6, 7].map((at) => node(`n${at}`, kept('clear'))),
    want: 'in the clear on 7 of 7 nodes: n1, n2, n3, n4, n5 and 2 more',
  },
])('the line “disks” of $name: $want (undefined: no line)', ({ given, want }) => {
  expect(textOf(partOf(given), 'disks')).toBe(want);
});

test('a full etcd is the first problem, before the problems that it causes', () => {
  const part = partOf([node('n1', { health: 'silent' }), node('n2'), node('n3')]);
  const full = {
    ...part,
    etcd: { ...part.etcd, isFull: true, dbSizeBytes: 100 },
    kubernetesEtcd: { ...part.etcd, isFull: true },
  };
  const [first, second, ...others] = problemsOf(full, undefined, NOW);
  expect(first).toMatch(/^the state etcd is full .*`cluster recover space`/);
  expect(second).toMatch(/^the Kubernetes etcd is full .*`cluster recover space`/);
  expect(others).toEqual(problemsOf(part, undefined, NOW));
});

test('an etcd with the alarm CORRUPT is the first problem, before a full one', () => {
  const part = partOf([node('n1')]);
  const both = {
    ...part,
    etcd: { ...part.etcd, isFull: true },
    kubernetesEtcd: { ...part.etcd, isCorrupt: true },
  };
  const [first, second] = problemsOf(both, undefined, NOW);
  expect(first).toMatch(/^the Kubernetes etcd has the alarm CORRUPT .*`cluster doctor`/);
  expect(second).toMatch(/^the state etcd is full/);
});

test('an etcd database that uses more than 80% of its quota is a problem', () => {
  const part = partOf([node('n1')]);
  const full = { ...part, etcd: { ...part.etcd, dbSizeBytes: 81 } };
  expect(problemsOf(part, undefined, NOW)).toEqual([]);
  expect(problemsOf(full, undefined, NOW)).toEqual(['the state etcd uses more than 80% of its quota']);
  const kubernetesEtcd = { ...part.etcd, dbSizeBytes: 81, hasLeader: false };
  expect(problemsOf({ ...part, kubernetesEtcd }, undefined, NOW)).toEqual([
    'the Kubernetes etcd has no leader: it accepts no writes until enough voters are available',
    'the Kubernetes etcd uses more than 80% of its quota',
  ]);
});

describe('problemsOf()', () => {
  const partsNotReady = [{ name: 'kube-apiserver', why: 'no answer within 2.0s' }];

  test('lists a failed control-plane component before the problems that it causes', () => {
    const part = partOf([node('n1', { partsNotReady }), node('n2'), node('n3')]);
    const kubernetes = {
      server: '',
      nodes: [{ name: 'n1', ready: false, why: 'NodeStatusUnknown' }],
      pods: { total: 1, notReady: ['default/a'] },
      charts: undefined,
    };
    expect(problemsOf(part, kubernetes, NOW)[0]).toBe('kube-apiserver on node n1: no answer within 2.0s');
  });

  const machine = { services: [{ name: 'state etcd', why: 'was hung' }], problems: [] };

  test('lists a service that is not well first, and no second time as a member that does not answer', () => {
    const nodes = [node('n1', { machine, partsNotReady }), node('n2'), node('n3')];
    expect(problemsOf(partOf(nodes, { silentVoters: ['n1'] }), undefined, NOW)).toEqual([
      'state etcd on node n1: was hung',
      'etcd tolerates no further failure: 2 of 3 voters are healthy',
      'kube-apiserver on node n1: no answer within 2.0s',
    ]);
  });

  test('ignores the services of a node that does not respond', () => {
    const part = partOf([node('n1', { machine, health: 'silent' })]);
    expect(problemsOf(part, undefined, NOW).filter((each) => each.includes('was hung'))).toEqual([]);
  });

  test('names the members of the Kubernetes etcd whose control planes alone see no leader', () => {
    const report = (nodeId: string, hasLeader: boolean, health = NodeHealth.HEALTHY) =>
      create(NodeSchema, { nodeId, name: nodeId, health, status: { kubernetesEtcd: { hasLeader } } });
    const nodes = ['n1', 'n2', 'n3'].map((name) => node(name));
    const silentOf = (...reports: readonly Node[]) => kubernetesEtcdFrom(reports)?.silentVoters;
    const kubernetesEtcd = kubernetesEtcdFrom([report('n1', true), report('n2', false)]);
    expect(problemsOf({ ...partOf(nodes), kubernetesEtcd }, undefined, NOW)).toEqual([
      'the Kubernetes etcd member of node n2 does not answer',
    ]);
    expect(silentOf(report('n1', true), report('n2', false, NodeHealth.TIMEOUT))).toEqual([]);
    expect(silentOf(report('n1', false), report('n2', false))).toEqual([]); // nobody has a leader: all are named by that
  });

  test('ignores the last report of a node that does not respond', () => {
    const part = partOf([node('n1', { partsNotReady, health: 'silent' }), node('n2'), node('n3')]);
    expect(problemsOf(part, undefined, NOW).filter((each) => each.startsWith('kube'))).toEqual([]);
  });
});
