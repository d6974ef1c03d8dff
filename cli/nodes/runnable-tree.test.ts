import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  Runnable_State,
  RunnableSchema,
  type Runnable,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import { renderTree, runnableViews } from './runnable-tree.ts';

const NOW = 1_000_000;
const runnable = (init: Partial<Runnable>): Runnable =>
  create(RunnableSchema, { path: 'root.a', sinceMs: BigInt(NOW - 120_000), ...init } as never);
const verdict = (init: Partial<Runnable>): unknown => runnableViews([runnable(init)], NOW)[0]?.verdict;

describe('runnableViews()', () => {
  test('distinguishes an idle runnable from a stuck one', () => {
    expect(verdict({ state: Runnable_State.NEW, idleBecause: 'idle: role absent' })).toBe('idle');
    expect(verdict({ state: Runnable_State.NEW })).toBe('stuck');
    expect(verdict({ state: Runnable_State.NEW, sinceMs: BigInt(NOW - 1000) })).toBe('starts');
    expect(verdict({ state: Runnable_State.HEALTHY })).toBe('runs');
    expect(verdict({ state: Runnable_State.DEAD })).toBe('failed');
    expect(verdict({ state: Runnable_State.DONE })).toBe('done');
  });

  test('renders state, age, restarts and last error without control characters', () => {
    const views = runnableViews(
      [
        runnable({ path: 'root', state: Runnable_State.HEALTHY }),
        runnable({
          path: 'root.kubernetes',
          state: Runnable_State.DEAD,
          restarts: 3,
          lastError: { code: 'x', message: 'no\u001b[31m', timeMs: BigInt(NOW - 60_000) } as never,
        }),
      ],
      NOW,
    );
    expect(renderTree(views, NOW)).toEqual([
      '  root          running    2m',
      '    kubernetes  failed     2m  3 restarts  last error 1m ago: x: no?[31m',
    ]);
  });

  test('shows no age of an error from an agent that does not report when it occurred', () => {
    const views = runnableViews([runnable({ lastError: { code: '', message: 'refused' } as never })], NOW);
    expect(renderTree(views, NOW)).toEqual(['    a  stuck      2m  last error: refused']);
  });
});
