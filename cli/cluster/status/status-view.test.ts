import { describe, expect, test } from '@jest/globals';
import type { KeysView } from './keys-view.ts';
import type { NodeView } from './node-view.ts';
import { quorumFrom, renderCurator, problemsOf, type CuratorPart } from './status-view.ts';

const NOW = 1_000_000_000;

function node(name: string, over: Partial<NodeView> = {}): NodeView {
  return {
    id: name,
    name,
    roles: ['consensus'],
    state: 'up',
    health: 'healthy',
    address: '',
    agentVersion: '',
    kubernetesVersion: '',
    createdMs: 0,
    lastError: undefined,
    certificates: [],
    expiry: undefined,
    troubles: [],
    partsNotReady: [],
    ...over,
  };
}

function partOf(nodes: readonly NodeView[], members = nodes.length): CuratorPart {
  const etcd = { dbSizeBytes: 1, quotaBytes: 100, hasLeader: true, members, learners: 0 };
  return {
    name: 'c',
    createdMs: 0,
    etcd,
    kubernetesEtcd: etcd,
    quorum: quorumFrom(etcd, nodes),
    pendingJoins: 0,
    nodes,
  };
}

const line = (part: CuratorPart, begin: string): string | undefined =>
  renderCurator({ ok: true, value: part }, NOW).find((each) => each.startsWith(begin));

describe('the quorum', () => {
  test.each([
    { voters: 1, silent: 0, want: '1 of 1 voter needed, 1 healthy: none may be lost', hangs: false },
    { voters: 3, silent: 0, want: '2 of 3 voters needed, 3 healthy: 1 may be lost', hangs: false },
    { voters: 3, silent: 1, want: '2 of 3 voters needed, 2 healthy: none may be lost', hangs: true },
    { voters: 3, silent: 2, want: '2 of 3 voters needed, 1 healthy: too few', hangs: true },
    { voters: 5, silent: 1, want: '3 of 5 voters needed, 4 healthy: 1 may be lost', hangs: false },
  ])('of $voters voters with $silent silent is told as “$want”', ({ voters, silent, want, hangs }) => {
    const nodes = Array.from({ length: voters }, (_, i) =>
      node(`n${i}`, { health: i < silent ? 'silent' : 'healthy' }),
    );
    const part = partOf(nodes);
    expect(line(part, 'quorum')).toBe(`quorum      ${want}`);
    expect(problemsOf(part, undefined, NOW).some((each) => each.startsWith('quorum hangs'))).toBe(hangs);
  });

  test('that is lost is said first and plainly, and a curator that is away is something else', () => {
    const lost = renderCurator(
      { ok: false, error: 'why', codes: ['cluster-curator-unreachable', 'etcd-unavailable'] },
      NOW,
    );
    expect(lost[0]).toMatch(/^quorum {6}LOST/);
    const away = renderCurator({ ok: false, error: 'why', codes: ['cluster-curator-unreachable'] }, NOW);
    expect(away).toEqual(['curator     not reached: why']);
  });
});

test.each([
  { name: 'from a curator that knows nothing of it', phase: undefined, want: undefined },
  { name: 'that are not being replaced', phase: 'done', want: undefined },
  {
    name: 'that are',
    phase: 'refresh',
    want: 'keys        being replaced: 5 of 6, kubelets and pods get what the new keys make, for 2m5s',
  },
  { name: 'in a phase of a newer version', phase: 'x', want: 'keys        being replaced: x, for 2m5s' },
])('keys $name are told as “$want”', ({ phase, want }) => {
  const keys = phase === undefined ? undefined : keysOf(phase);
  expect(line({ ...partOf([node('n1')]), keys }, 'keys')).toBe(want);
});

function keysOf(phase: string): KeysView {
  const phaseSinceMs = NOW - 125_000;
  const asked = { startedMs: 0, phaseSinceMs, startedBy: '', reason: '' };
  return { generation: 2, phase, isDone: phase === 'done', ...asked, awaited: [] };
}

test('the certificate that runs out first is named; one that has run out is a trouble', () => {
  const hour = 3_600_000;
  const nodes = [
    node('n1', { expiry: { certificate: 'node', notAfterMs: NOW + 5 * hour } }),
    node('n2', { expiry: { certificate: 'kubelet', notAfterMs: NOW + 2 * hour } }),
  ];
  expect(line(partOf(nodes), 'expiry')).toMatch(/^expiry {6}kubelet of n2 first, in 2/);
  expect(problemsOf(partOf(nodes), undefined, NOW)).toEqual([]);
  expect(problemsOf(partOf(nodes), undefined, NOW + 3 * hour)).toEqual([
    'certificate kubelet of n2 has run out',
  ]);
});

test('a database that nears its quota is a trouble before it is full', () => {
  const part = partOf([node('n1')]);
  const full = { ...part, etcd: { ...part.etcd, dbSizeBytes: 81 } };
  expect(problemsOf(part, undefined, NOW)).toEqual([]);
  expect(problemsOf(full, undefined, NOW)).toEqual(['the state etcd has used more than 80 % of its quota']);
  const kubernetesEtcd = { ...part.etcd, dbSizeBytes: 81, hasLeader: false };
  expect(problemsOf({ ...part, kubernetesEtcd }, undefined, NOW)).toEqual([
    'the Kubernetes etcd has no leader: it decides nothing until enough voters are back',
    'the Kubernetes etcd has used more than 80 % of its quota',
  ]);
});

describe('troublesOf()', () => {
  const partsNotReady = [{ name: 'kube-apiserver', why: 'no answer within 2000 ms' }];

  test('names a part of the control plane that hangs before what follows from it', () => {
    const part = partOf([node('n1', { partsNotReady }), node('n2'), node('n3')]);
    const kubernetes = {
      server: '',
      nodes: [{ name: 'n1', ready: false, why: 'NodeStatusUnknown' }],
      pods: { total: 1, notReady: ['default/a'] },
    };
    expect(problemsOf(part, kubernetes, NOW)[0]).toBe('kube-apiserver of n1: no answer within 2000 ms');
  });

  test('repeats nothing that a silent node said before it fell silent', () => {
    const part = partOf([node('n1', { partsNotReady, health: 'silent' }), node('n2'), node('n3')]);
    expect(problemsOf(part, undefined, NOW).filter((each) => each.startsWith('kube'))).toEqual([]);
  });
});
