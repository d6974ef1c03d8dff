import { describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { FakeClock, settle } from '../testing/index.ts';
import { respond } from '../testing/tpm/fake-tpm.ts';
import { TpmConnection } from './connection.ts';
import { HmacSession } from './sessions/hmac-session.ts';
import type { Transport } from './transport.ts';
import { WireWriter } from './wire.ts';

const COMMAND = { name: 'getRandom', parameters: Uint8Array.of(0, 8) } as const;
const OK = respond({ parameters: Uint8Array.of(0, 1, 9) });

/**
 * A connection to a TPM that sends `answers` in order and then repeats the last one. A promise that never settles is a
 * TPM that hangs.
 */
function connect(answers: readonly (Uint8Array | Promise<Uint8Array>)[]) {
  const clock = new FakeClock();
  const sent: string[] = [];
  let disposed = 0;
  const transport: Transport = {
    transmit: async (command) => {
      sent.push(Buffer.from(command).toString('hex'));
      return (await answers[Math.min(sent.length, answers.length) - 1]) ?? OK;
    },
    [Symbol.asyncDispose]: async () => void disposed++,
  };
  const connection = new TpmConnection({ transport, clock, commandTimeLimitMs: 1000 });
  return { clock, sent, connection, disposals: () => disposed };
}

const never = new AbortController().signal;

describe('TpmConnection.execute()', () => {
  test.each([0x922, 0x908, 0x90a, 0x920, 0x923])(
    'sends the command again after response code %i',
    async (rc) => {
      const { clock, sent, connection } = connect([respond({ rc }), respond({ rc }), OK]);
      const answer = connection.execute(COMMAND, never);
      await clock.advance(10);
      expect((await answer).parameters.sized('x', 8)).toEqual(Uint8Array.of(9));
      expect(sent).toHaveLength(3);
      expect(new Set(sent).size).toBe(1);
      expect(clock.sleeping).toBe(0);
    },
  );

  test('fails with tpm-busy after a limited number of attempts', async () => {
    const { clock, sent, connection } = connect([respond({ rc: 0x922 })]);
    const answer = expect(connection.execute(COMMAND, never)).rejects.toMatchObject({ code: 'tpm-busy' });
    await clock.advance(60_000);
    await answer;
    expect(sent).toHaveLength(22);
    expect(clock.sleeping).toBe(0);
  });

  test('does not repeat a refused command', async () => {
    const { sent, connection } = connect([respond({ rc: 0x9a2 }), OK]);
    await expect(connection.execute(COMMAND, never)).rejects.toMatchObject({ code: 'tpm-auth-failed' });
    expect(sent).toHaveLength(1);
    expect(connection.broken).toBe(false);
  });

  test('stops retrying when its signal fires', async () => {
    const { clock, sent, connection } = connect([respond({ rc: 0x922 })]);
    const abort = new AbortController();
    const answer = expect(connection.execute(COMMAND, abort.signal)).rejects.toThrow('enough');
    await clock.advance(5);
    abort.abort(new Error('enough'));
    await answer;
    expect(sent.length).toBeLessThan(4);
    expect(clock.sleeping).toBe(0);
  });

  test('closes the connection when a command times out', async () => {
    const { clock, connection } = connect([new Promise<Uint8Array>(() => undefined)]);
    const answer = expect(connection.execute(COMMAND, never)).rejects.toMatchObject({ code: 'tpm-timeout' });
    await clock.advance(1000);
    await answer;
    expect(connection.broken).toBe(true);
    await expect(connection.execute(COMMAND, never)).rejects.toMatchObject({ code: 'tpm-connection' });
  });
});

test('a connection is not used again after a response with a wrong HMAC, whose session the TPM has gone on with', async () => {
  const zero = new Uint8Array(32);
  const sessionHandle = 0x02000000;
  const session = new HmacSession({ handle: sessionHandle, key: new Secret(zero), nonceTpm: zero });
  const proof = new WireWriter().sized(zero).u8(1).sized(zero).finish();
  const forged = new WireWriter()
    .u16(0x8002)
    .u32(14 + proof.length)
    .u32(0)
    .u32(0)
    .bytes(proof)
    .finish();
  const { connection, sent } = connect([forged]);
  const authorizations = [{ sessionHandle, value: zero, session }];
  const command = { name: 'nvIncrement', handles: [1, 1], authorizations } as const;
  await expect(connection.run(command, never)).rejects.toMatchObject({ code: 'tpm-response-altered' });
  expect([connection.broken, sent.length]).toEqual([true, 1]);
});

describe('loaded TPM objects', () => {
  const flushOf = (handle: number): string => `80010000000e00000165${handle.toString(16).padStart(8, '0')}`;

  test('are flushed once, even if they are disposed several times', async () => {
    const { sent, connection } = connect([respond({})]);
    const loaded = connection.track(0x80000001);
    await loaded[Symbol.asyncDispose]();
    await loaded[Symbol.asyncDispose]();
    await connection[Symbol.asyncDispose]();
    expect(sent).toEqual([flushOf(0x80000001)]);
  });

  test('are flushed when the task ends unless they are kept', async () => {
    const { sent, connection } = connect([respond({})]);
    connection.track(0x80000001);
    connection.keepLoaded(connection.track(0x80000002));
    await connection.endTask();
    expect(sent).toEqual([flushOf(0x80000001)]);
    await connection[Symbol.asyncDispose]();
    expect(sent).toEqual([flushOf(0x80000001), flushOf(0x80000002)]);
  });

  test('are flushed when the connection closes', async () => {
    const { sent, connection, disposals } = connect([respond({})]);
    connection.track(0x80000001);
    connection.track(0x03000000);
    await connection[Symbol.asyncDispose]();
    expect(sent).toEqual([flushOf(0x80000001), flushOf(0x03000000)]);
    expect(disposals()).toBe(1);
  });

  test('are not flushed over a broken connection, whose transport is closed', async () => {
    const { clock, sent, connection, disposals } = connect([new Promise<Uint8Array>(() => undefined)]);
    connection.track(0x80000001);
    const answer = expect(connection.execute(COMMAND, never)).rejects.toMatchObject({ code: 'tpm-timeout' });
    await clock.advance(1000);
    await answer;
    await connection[Symbol.asyncDispose]();
    expect(sent).toHaveLength(1);
    expect(disposals()).toBe(1);
    await settle();
  });
});
