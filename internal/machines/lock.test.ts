import { expect, test } from '@jest/globals';
import { acquireLock } from './lock.ts';

test('a lock has one holder, and is free again when it is let go', async () => {
  const what = `test ${crypto.randomUUID()}`;
  {
    await using _held = await acquireLock(what);
    await expect(acquireLock(what)).rejects.toMatchObject({ code: 'machines-busy', exit: 'locked' });
    await using _other = await acquireLock(`${what} other`);
  }
  await using _again = await acquireLock(what);
});

test('of many that ask at once exactly one gets it', async () => {
  const what = `test ${crypto.randomUUID()}`;
  const asked = await Promise.allSettled(Array.from({ length: 20 }, () => acquireLock(what)));
  const won = asked.filter((each) => each.status === 'fulfilled');
  expect(won).toHaveLength(1);
  await won[0]?.value[Symbol.asyncDispose]();
});
