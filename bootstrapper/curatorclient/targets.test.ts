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
      name: 'curators in the directory and control planes whose curator has not announced itself',
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

  test('lists each configured address once, and relays, because another control plane may now use an address', () => {
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
    { name: 'ranks the curator of this node first', given: { ...calm, ownNodeId: 'c' }, want: [c, a, b, x] },
    {
      name: 'ranks the other curators by load, the least busy one first',
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
      name: 'ranks a curator that failed recently after the other curators, even that of this node, but before last resorts',
      given: { ...calm, ownNodeId: 'c', failedAtMs: new Map([[targetKey(c), 99_000]]) },
      want: [a, b, c, x],
    },
    {
      name: 'ranks a curator that failed long ago like the others',
      given: { ...calm, failedAtMs: new Map([[targetKey(a), 90_000]]) },
      want: [a, b, c, x],
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(rankTargets([a, b, c, x], given)).toEqual(want);
  });

  test('ranks announced curators before others, even that of this node, then configured addresses, then relays', () => {
    const [u, r] = [target('u', 'unseen'), target(undefined, 'relay')];
    expect(rankTargets([r, x, u, a, b], { ...calm, ownNodeId: 'u' })).toEqual([a, b, u, x, r]);
  });

  test('tries last resorts in turn: the one that failed longest ago comes first', () => {
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

  test('nodes start with different curators', () => {
    const first = [0, 1, 2].map((offset) => rankTargets([a, b, c], { ...calm, offset })[0]);
    expect(new Set(first).size).toBe(3);
  });
});
