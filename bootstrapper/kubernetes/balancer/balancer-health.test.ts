import { expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { FakeClock, settle, temporaryDirectory } from '../../../internal/testing/index.ts';
import { parseBalancerHealth, readBalancerHealth } from './balancer-health.ts';

const upstream = { host: '2001:db8::1', port: 6443 };
const healthy = { upstream, verdict: 'healthy', sinceMs: 5, why: '', connections: 2 };

const refused = [
  { name: 'text that is not JSON', text: 'x' },
  { name: 'null', text: 'null' },
  { name: 'a missing list', text: '{"upstreams":{}}' },
  { name: 'too many API servers', text: JSON.stringify({ upstreams: Array(65).fill(healthy) }) },
  ...Object.keys(healthy).map((name) => ({
    name: `an upstream without ${name}`,
    text: JSON.stringify({ upstreams: [{ ...healthy, [name]: undefined }] }),
  })),
  {
    name: 'an unknown state',
    text: JSON.stringify({ upstreams: [{ ...healthy, verdict: 'fine' }] }),
  },
];

test.each(refused)('parseBalancerHealth() refuses $name', ({ text }) => {
  expect(() => parseBalancerHealth(text)).toThrow(SyntaxError);
});

test('parseBalancerHealth() joins host and port, and shortens long reasons', () => {
  const text = JSON.stringify({ upstreams: [{ ...healthy, verdict: 'silent', why: 'x'.repeat(1000) }] });
  expect(parseBalancerHealth(text)).toEqual([
    { server: '[2001:db8::1]:6443', verdict: 'silent', sinceMs: 5, why: 'x'.repeat(200), connections: 2 },
  ]);
});

/** A fake balancer that sends `text` and closes the connection, or that never answers. */
async function answering(path: string, text: string | undefined): Promise<AsyncDisposable> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    if (text !== undefined) socket.end(text);
  });
  server.listen(path);
  await once(server, 'listening');
  return { [Symbol.asyncDispose]: async () => void server.close() };
}

const never = new AbortController().signal;

test('readBalancerHealth() reads what the balancer writes to its health socket', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'health.sock');
  await using _server = await answering(path, JSON.stringify({ upstreams: [healthy] }));
  expect(await readBalancerHealth(path, { clock: new FakeClock(), signal: never })).toHaveLength(1);
});

test('readBalancerHealth() refuses an answer above the size limit', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'health.sock');
  await using _server = await answering(path, ' '.repeat(200_000));
  const asked = readBalancerHealth(path, { clock: new FakeClock(), signal: never });
  await expect(asked).rejects.toThrow('the answer is too long');
});

test('readBalancerHealth() rejects after 1 s when the balancer does not answer', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'health.sock');
  await using _server = await answering(path, undefined);
  const clock = new FakeClock();
  const asked = readBalancerHealth(path, { clock, signal: never });
  const refused = expect(asked).rejects.toThrow('timed out after 1.0s');
  await settle();
  await clock.advance(1_000);
  await refused;
});
