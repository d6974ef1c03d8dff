import { expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { settle } from '../../internal/testing/index.ts';
import { RestartableTask } from './restartable-task.ts';

test('RestartableTask.restart() starts the work again with other certificates, until the signal fires', async () => {
  const renewable = new RestartableTask();
  const stop = new AbortController();
  let turns = 0;
  const running = renewable.run(async (signal) => {
    turns++;
    await untilAborted(signal);
  }, stop.signal);
  await settle();
  renewable.restart();
  await settle();
  expect(turns).toBe(2);
  stop.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  renewable.restart();
  expect(turns).toBe(2);
});

test('RestartableTask does not restart work that fails or ends by itself', async () => {
  const { signal } = new AbortController();
  const renewable = new RestartableTask();
  await expect(renewable.run(() => Promise.reject(new Error('of its own')), signal)).rejects.toThrow(
    'of its own',
  );
  expect(await renewable.run(() => Promise.resolve('done'), signal)).toBe('done');
});
