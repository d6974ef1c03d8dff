import { afterEach, describe, expect, test } from '@jest/globals';
import { createServer, type RequestListener, type Server } from 'node:http';
import { once } from 'node:events';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { requestOnce } from './demo.ts';

const never = new AbortController().signal;
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function serve(
  listener: RequestListener,
): Promise<{ readonly url: string; readonly asked: Promise<unknown> }> {
  const server = createServer(listener);
  servers.push(server);
  const asked = once(server, 'request');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}/`, asked };
}

describe('requestOnce()', () => {
  test('returns the text of the response', async () => {
    const { url } = await serve((_, response) => response.end('hello\n'));
    expect(await requestOnce(url, { clock: new FakeClock(), signal: never })).toEqual({ answer: 'hello' });
  });

  test('gives up on a server that accepts the connection and does not respond', async () => {
    const { url, asked } = await serve(() => undefined);
    const clock = new FakeClock();
    const response = requestOnce(url, { clock, signal: never });
    await asked;
    await clock.advance(5_000);
    expect(await response).toEqual({
      answer: undefined,
      error: expect.objectContaining({ message: expect.stringContaining('timed out after 5.0s') }),
    });
  });
});
