import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { rawX25519, x25519PrivateKey } from '../../internal/crypto/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import type { Command, CommandRunner } from '../../internal/exec/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  answerConsoleChallenge,
  createConsoleChallenge,
  decodeTyped,
  wrapForConsole,
} from '../../internal/statedisk/index.ts';
import { createMemoryLogger, FakeClock, settle } from '../../internal/testing/index.ts';
import { untilRecovered, type ConsoleEntry } from './locked-disk.ts';

const { signal } = new AbortController();
const KEY = new Uint8Array(32).fill(7);
const uuid = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';

/** A machine that waits for a recovery, and whose console does not open before `open` is called. */
function start() {
  const [recovered, tried] = [new EventValue<true>(), [] as Uint8Array[]];
  const late = Promise.withResolvers<ConsoleEntry>();
  const recover = (key: Secret<Uint8Array>): Promise<number> => {
    tried.push(key.reveal());
    recovered.set(true);
    return Promise.resolve(0);
  };
  const ports = {
    ...{ clock: new FakeClock(), log: createMemoryLogger().log },
    openConsole: (alive: AbortSignal) => Promise.race([late.promise, untilAborted(alive)]),
  };
  const ended = untilRecovered(ports, { recovered, recover }, signal);
  return { ended, tried, recovered, open: late.resolve };
}

describe('a machine whose console opens late', () => {
  test('takes the code of an owner there', async () => {
    const { ended, tried, open } = start();
    let type: Command['onLine'];
    const run: CommandRunner['run'] = ({ onLine, signal: until }) => {
      type = onLine;
      return untilAborted(until);
    };
    const owner = new Secret(new Uint8Array(32).fill(5));
    const recipients = [rawX25519(x25519PrivateKey(owner.reveal()))];
    const recovery = wrapForConsole(
      uuid,
      recipients.map((recipient) => ({ recipient, secret: new Secret(KEY) })),
    );
    const challenge = createConsoleChallenge({ uuid, recovery, recipients });
    const bytes = decodeTyped('challenge', challenge.text);
    if (bytes.kind === 'mistyped') throw new Error(bytes.why);
    open({
      commands: { run },
      sources: { paths: ['/run/code'], areConsoles: false },
      ...{ challenge, lines: [] },
    });
    await settle();
    type?.(answerConsoleChallenge(bytes.bytes, owner)?.reveal() ?? '', 'stdout');
    await settle();
    expect(tried).toEqual([KEY]);
    await ended;
  });

  test('does not wait for it when an owner has recovered the disk over the network', async () => {
    const { ended, recovered } = start();
    let isEnded = false;
    void ended.then(() => (isEnded = true));
    await settle();
    expect(isEnded).toBe(false);
    recovered.set(true);
    await settle();
    expect(isEnded).toBe(true);
  });
});
