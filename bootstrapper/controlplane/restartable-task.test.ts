import { expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { settle } from '../../internal/testing/index.ts';
import { RestartableTask } from './restartable-task.ts';

test('RestartableTask runs its work again when certificates are renewed, and ends when its signal fires', async () => {
  const renewable = new RestartableTask();
  const stop = new AbortController();
  let runs = 0;
  const running = renewable.run(async (signal) => {
    runs++;
    await untilAborted(signal);
  }, stop.signal);
  await settle();
  renewable.restart();
  await settle();
  expect(runs).toBe(2);
  stop.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  renewable.restart();
  expect(runs).toBe(2);
});

test('RestartableTask does not restart work that failed or ended by itself', async () => {
  const { signal } = new AbortController();
  const renewable = new RestartableTask();
  await expect(renewable.run(() => Promise.reject(new Error('of its own')), signal)).rejects.toThrow(
    'of its own',
  );
  expect(await renewable.run(() => Promise.resolve('done'), signal)).toBe('done');
});
