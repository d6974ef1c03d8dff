import { expect, test } from '@jest/globals';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { FakeClock } from '../testing/index.ts';
import { RelayedSources } from './relayed-source.ts';

/** Connections whose first bytes are awaited at the same time from one IPv4 address or IPv6 /64. */
const HELD = 64;

/** A connection that sends nothing. */
function silent(remoteAddress: string): Socket {
  return Object.assign(new PassThrough(), { remoteAddress }) as unknown as Socket;
}

test('one holder of an IPv6 /64 does not keep the server from reading the headers of others', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const sources = new RelayedSources(clock);
  const identify = (address: string) => sources.identify(silent(address), stop.signal);
  const waiting = Array.from({ length: HELD }, (_, index) => identify(`2001:db8:0:1::${index + 1}`));
  await expect(identify('2001:db8:0:1::ffff')).resolves.toMatchObject({ isRead: false });
  // The first bytes of another holder are awaited.
  const other = identify('2001:db8:0:2::1');
  expect(await Promise.race([other, Promise.resolve('waits')])).toBe('waits');
  stop.abort(new Error('the test is over'));
  await Promise.allSettled([...waiting, other]);
});
