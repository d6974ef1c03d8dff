import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import { closeOpened, opened, temporaryDirectory } from '../../internal/testing/index.ts';
import { NodeLock, type LockClaim } from './node-lock.ts';

const ROUNDS = 100;
const contender = join(import.meta.dirname, 'fake-contender.mjs');
const init: LockClaim = { clusterId: 'a'.repeat(32), by: 'init', id: 'init-1' };
const ticket: LockClaim = { clusterId: 'b'.repeat(32), by: 'join', id: 'ticket-1' };

type Answer = { readonly won: string } | { readonly code: string; readonly clusterId: string };

let directory: string;
let contenders: readonly ChildProcess[];
beforeEach(async () => {
  directory = opened(await temporaryDirectory()).path;
  contenders = [init, ticket].map(() => fork(contender, { execArgv: ['--no-warnings'] }));
  await Promise.all(contenders.map((each) => once(each, 'message')));
});
afterEach(async () => {
  await Promise.all(contenders.map((each) => (each.disconnect(), once(each, 'exit'))));
  await closeOpened();
});

describe('NodeLock, when one process locks it for an init and another one for a join', () => {
  test(`lets exactly one of them win at the same instant, ${ROUNDS} times, and a third process finds the winner`, async () => {
    const wins = { init: 0, join: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      const path = join(directory, `lock-${round}.json`);
      const atMs = Date.now() + 8; // both processes spin until this time, to start at the same instant
      const answers = await Promise.all(
        [init, ticket].map(async (claim, index) => {
          const each = contenders[index];
          if (each === undefined) throw new Error('a contender is missing');
          each.send({ path, claim, atMs });
          const [answer] = (await once(each, 'message')) as [Answer];
          return answer;
        }),
      );
      const winners = answers.flatMap((answer) => ('won' in answer ? [answer.won] : []));
      const losers = answers.flatMap((answer) => ('code' in answer ? [answer] : []));
      expect([winners.length, losers.length]).toEqual([1, 1]);
      const winner = winners[0] === 'init' ? init : ticket;
      expect(losers[0]).toEqual({ code: 'nodelock-held', clusterId: winner.clusterId });
      wins[winner.by] += 1;
      // After a restart, the winner finds its own lock and the loser is refused again.
      const restarted = new NodeLock({ files: new DiskFiles(), path, nowMs: () => 0 });
      expect(await restarted.acquire(winner)).toMatchObject(winner);
      const loser = winner === init ? ticket : init;
      await expect(restarted.acquire(loser)).rejects.toMatchObject({ code: 'nodelock-held' });
    }
    // If one side always won, the test would not exercise the race.
    expect(Math.min(wins.init, wins.join)).toBeGreaterThan(0);
  });
});
