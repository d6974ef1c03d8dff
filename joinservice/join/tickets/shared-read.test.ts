import { expect, test } from '@jest/globals';
import { FakeClock, settle } from '../../../internal/testing/index.ts';
import { SharedRead } from './shared-read.ts';

test('SharedRead shares the next read among callers that call during a read', async () => {
  const reads: ((value: number) => void)[] = [];
  const read = () => new Promise<number>((resolve) => reads.push(resolve));
  const shared = new SharedRead(new FakeClock(), read);
  const first = shared.get();
  await settle();
  const [second, third] = [shared.get(), shared.get()];
  await settle();
  expect(reads.length).toBe(1);
  reads[0]?.(1);
  expect(await first).toBe(1);
  await settle();
  expect(reads.length).toBe(2);
  reads[1]?.(2);
  expect(await Promise.all([second, third])).toEqual([2, 2]);
});

test('SharedRead rejects all callers of a failed or hanging read, and reads again for the next caller', async () => {
  const clock = new FakeClock();
  let count = 0;
  const shared = new SharedRead(clock, () =>
    ++count === 1 ? Promise.reject(new Error('away')) : new Promise<number>(() => undefined),
  );
  await expect(shared.get()).rejects.toThrow('away');
  const hanging = shared.get();
  const told = expect(hanging).rejects.toThrow('timed out after 10s');
  await settle();
  await clock.advance(10_000);
  await told;
  expect(count).toBe(2);
});
