import { describe, expect, test } from '@jest/globals';
import type { ControlPlaneNode } from './directory.ts';
import { keyOf, rankTargets, targetsOf, type CuratorTarget } from './targets.ts';

const node = (nodeId: string, more: Partial<ControlPlaneNode> = {}): ControlPlaneNode => ({
  nodeId,
  host: `${nodeId}.example.test`,
  curator: true,
  apiServer: true,
  ...more,
});

describe('targetsOf()', () => {
  const of = (
    directory: readonly ControlPlaneNode[],
    staticHosts: readonly string[] = [],
  ): readonly string[] =>
    targetsOf({ directory, staticHosts, port: 9091 }).map(({ nodeId, endpoint }) => `${nodeId}=${endpoint}`);

  test.each([
    {
      name: 'those that serve and those that have not been seen to',
      given: [node('a'), node('b', { curator: false })],
      want: ['a=a.example.test:9091', 'b=b.example.test:9091'],
    },
    { name: 'IPv6 in brackets', given: [node('a', { host: '2001:db8::1' })], want: ['a=[2001:db8::1]:9091'] },
  ])('names $name', ({ given, want }) => {
    expect(of(given)).toEqual(want);
  });

  test('takes written addresses beside the directory, each once', () => {
    expect(of([node('a')], ['a.example.test', '192.0.2.1'])).toEqual([
      'a=a.example.test:9091',
      'undefined=192.0.2.1:9091',
    ]);
  });
});

describe('rankTargets()', () => {
  const target = (nodeId: string | undefined): CuratorTarget => ({ endpoint: `${nodeId ?? 'x'}:1`, nodeId });
  const [a, b, c] = [target('a'), target('b'), target('c')];
  const x = target(undefined);
  const calm = { nowMs: 100_000, ownNodeId: 'z', failedAtMs: new Map(), users: new Map(), offset: 0 };
  const cases = [
    { name: 'the own one first', given: { ...calm, ownNodeId: 'c' }, want: [c, a, b, x] },
    {
      name: 'the least busy one of the others',
      given: {
        ...calm,
        users: new Map([
          [keyOf(a), 2],
          [keyOf(b), 1],
        ]),
      },
      want: [c, b, a, x],
    },
    {
      name: 'who failed lately last, the own one too',
      given: { ...calm, ownNodeId: 'c', failedAtMs: new Map([[keyOf(c), 99_000]]) },
      want: [a, b, x, c],
    },
    {
      name: 'who failed long ago like the others',
      given: { ...calm, failedAtMs: new Map([[keyOf(a), 90_000]]) },
      want: [a, b, c, x],
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(rankTargets([a, b, c, x], given)).toEqual(want);
  });

  test('who was not seen to serve comes after who was, the own one too, and before a written address', () => {
    const unseen = targetsOf({ directory: [node('u', { curator: false })], staticHosts: [], port: 1 });
    expect(rankTargets([x, ...unseen, a, b], { ...calm, ownNodeId: 'u' })).toEqual([a, b, ...unseen, x]);
  });

  test('nodes begin with different ones', () => {
    const first = [0, 1, 2].map((offset) => rankTargets([a, b, c], { ...calm, offset })[0]);
    expect(new Set(first).size).toBe(3);
  });
});
