import { describe, expect, test } from '@jest/globals';
import { CodedError, defineErrors, retryable } from '../../internal/errors/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import { FakeClock } from '../../internal/testing/index.ts';
import { retryConnection } from './retry-connection.ts';

const MINUTE = 60_000;
const refused = defineErrors({
  'test-refused': retryable.peer.refused('no', ''),
});

/** Runs `attempt` on a clock that advances until the call has ended. */
async function start<T>(
  attempt: (alive: () => void, clock: FakeClock) => Promise<T>,
  signal = new AbortController().signal,
) {
  const clock = new FakeClock();
  const lost: string[] = [];
  const running = retryConnection(
    { clock, signal, doing: 'doing', onLost: (why) => lost.push(why) },
    (alive) => attempt(alive, clock),
  );
  let ended = false;
  const settled = running.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  void settled.then(() => (ended = true));
  while (!ended) await clock.advance(500);
  return { ...(await settled), lost, clock } as {
    value?: T;
    error?: unknown;
    lost: string[];
    clock: FakeClock;
  };
}

describe('retryConnection()', () => {
  test('retries after a lost connection, and reports each reason and how long it has been lost', async () => {
    let tries = 0;
    const { value, lost } = await start(async () => {
      if (++tries < 5)
        throw new RpcError('rpc-unreachable', 'calling', { cause: new Error(`reset ${tries}`) });
      return 'done';
    });
    expect(value).toBe('done');
    expect(lost).toEqual([
      'calling: reset 1',
      'calling: reset 2',
      'calling: reset 3',
      'calling: reset 4; no response for 1.2s of at most 15m',
    ]);
  });

  test('survives ten minutes of suspend, and gives up after 15 minutes with the last cause', async () => {
    const { error, clock } = await start(() => Promise.reject(new RpcError('rpc-timeout', 'calling')));
    expect(error).toMatchObject({
      code: 'cluster-unreachable',
      exit: 'unreachable',
      retryable: true,
      cause: { code: 'rpc-timeout' },
    });
    const passed = clock.monotonicMs() - new FakeClock().monotonicMs();
    expect(passed).toBeGreaterThan(10 * MINUTE);
    expect(passed).toBeLessThan(16 * MINUTE);
  });

  test('measures the time limit from the last progress', async () => {
    let tries = 0;
    const { value } = await start(async (alive, clock) => {
      await clock.sleep(14 * MINUTE, new AbortController().signal);
      if (++tries === 3) return 'done';
      alive();
      throw new RpcError('rpc-unreachable', 'calling');
    });
    expect(value).toBe('done');
  });

  const finals = [
    {
      name: 'an error response of the peer, even a retryable one',
      error: new CodedError(refused, 'test-refused', 'x'),
    },
    { name: 'a failed handshake', error: new RpcError('rpc-handshake', 'x') },
    { name: 'a call that the peer does not implement', error: new RpcError('rpc-not-served', 'x') },
    { name: 'a programming error', error: new TypeError('x') },
  ];
  test.each(finals)('does not retry after $name', async ({ error: given }) => {
    const { error, lost } = await start(() => Promise.reject(given));
    expect(error).toBe(given);
    expect(lost).toEqual([]);
  });

  test('retries only a few times when the peer fails without a reason', async () => {
    let tries = 0;
    const { error } = await start(async () => {
      tries += 1;
      throw new RpcError('rpc-failed', 'x');
    });
    expect(error).toMatchObject({ code: 'rpc-failed' });
    expect(tries).toBe(6);
  });

  test('ends with the reason of its abort signal if this signal fires during a pause', async () => {
    const stopping = new AbortController();
    const { error } = await start(async () => {
      stopping.abort(new Error('enough'));
      throw new RpcError('rpc-unreachable', 'x');
    }, stopping.signal);
    expect(error).toMatchObject({ message: 'enough' });
  });
});
