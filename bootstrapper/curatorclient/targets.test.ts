import { describe, expect, test } from '@jest/globals';
import type { ControlPlaneNode } from './directory.ts';
import {
  isLastResort,
  targetKey,
  rankTargets,
  curatorTargets,
  type CuratorTarget,
  type TargetOptions,
} from './targets.ts';

const node = (nodeId: string, more: Partial<ControlPlaneNode> = {}): ControlPlaneNode => ({
  nodeId,
  host: `${nodeId}.example.test`,
  curator: true,
  apiServer: true,
  ...more,
});

describe('targetsOf()', () => {
  const none = { staticHosts: [], relays: [] };
  const of = (directory: readonly ControlPlaneNode[], more: Partial<TargetOptions> = {}): readonly string[] =>
    curatorTargets({ directory, ...none, port: 9091, relayPort: 9093, ...more }).map(
      ({ nodeId, endpoint, source }) => `${source} ${nodeId ?? 'any'}=${endpoint}`,
    );

  test.each([
    {
      name: 'curators that serve and curators that were not seen serving',
      given: [node('a'), node('b', { curator: false })],
      want: ['directory a=a.example.test:9091', 'unseen b=b.example.test:9091'],
    },
    {
      name: 'IPv6 hosts in brackets',
      given: [node('a', { host: '2001:db8::1' })],
      want: ['directory a=[2001:db8::1]:9091'],
    },
  ])('lists $name', ({ given, want }) => {
    expect(of(given)).toEqual(want);
  });

  test('adds the relays and each configured address once, even the address of a listed curator, because another node may have the address now', () => {
    const staticHosts = ['a.example.test', '192.0.2.1', '192.0.2.1'];
    expect(of([node('a')], { staticHosts, relays: ['192.0.2.1'] })).toEqual([
      'directory a=a.example.test:9091',
      'written any=a.example.test:9091',
      'written any=192.0.2.1:9091',
      'relay any=192.0.2.1:9093',
    ]);
  });
});

describe('rankTargets()', () => {
  const target = (
    nodeId: string | undefined,
    source: CuratorTarget['source'] = 'directory',
  ): CuratorTarget => ({
    ...{ nodeId, source },
    endpoint: `${nodeId ?? 'x'}:1`,
  });
  const [a, b, c] = [target('a'), target('b'), target('c')];
  const x = target(undefined, 'written');
  const calm = { nowMs: 100_000, ownNodeId: 'z', failedAtMs: new Map(), callsInFlight: new Map(), offset: 0 };
  const cases = [
    { name: 'the curator of this node comes first', given: { ...calm, ownNodeId: 'c' }, want: [c, a, b, x] },
    {
      name: 'after the curator of this node comes the least busy curator',
      given: {
        ...calm,
        callsInFlight: new Map([
          [targetKey(a), 2],
          [targetKey(b), 1],
        ]),
      },
      want: [c, b, a, x],
    },
    {
      name: 'a curator that failed recently comes after the other curators, even if it is on this node, but before configured addresses and relays',
      given: { ...calm, ownNodeId: 'c', failedAtMs: new Map([[targetKey(c), 99_000]]) },
      want: [a, b, c, x],
    },
    {
      name: 'a curator that failed long ago ranks like the others',
      given: { ...calm, failedAtMs: new Map([[targetKey(a), 90_000]]) },
      want: [a, b, c, x],
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(rankTargets([a, b, c, x], given)).toEqual(want);
  });

  test('curators that were not seen serving come after the curators that were, even if one of them is on this node; then configured addresses, then relays', () => {
    const [u, r] = [target('u', 'unseen'), target(undefined, 'relay')];
    expect(rankTargets([r, x, u, a, b], { ...calm, ownNodeId: 'u' })).toEqual([a, b, u, x, r]);
  });

  test('configured addresses and relays are tried in rotation', () => {
    const relays = ['1', '2', '3'].map((host) => ({
      ...{ endpoint: `${host}:1`, nodeId: undefined },
      source: 'relay' as const,
    }));
    const failedAtMs = new Map<string, number>();
    const asked = [1, 2, 3, 4].map((round) => {
      const nowMs = round * 100_000;
      const first = rankTargets([...relays, a], { ...calm, nowMs, failedAtMs }).find(isLastResort);
      if (first !== undefined) failedAtMs.set(targetKey(first), nowMs);
      return first?.endpoint;
    });
    expect(asked).toEqual(['1:1', '2:1', '3:1', '1:1']);
  });

  test('different nodes start with different curators', () => {
    const first = [0, 1, 2].map((offset) => rankTargets([a, b, c], { ...calm, offset })[0]);
    expect(new Set(first).size).toBe(3);
  });
});
