import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { rawX25519, x25519PrivateKey } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';
import {
  answerConsoleChallenge,
  createConsoleChallenge,
  decodeTyped,
  wrapForConsole,
  type ConsoleChallenge,
} from './index.ts';
import { encodeTyped } from './typed-text.ts';

const UUID = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';
const KEY = new Secret(new Uint8Array(32).fill(7));

interface Owner {
  readonly secret: Secret<Uint8Array>;
  readonly recipient: Uint8Array;
}

function createOwner(): Owner {
  const raw = new Uint8Array(randomBytes(32));
  return { secret: new Secret(raw), recipient: rawX25519(x25519PrivateKey(raw)) };
}

const [ann, ben, eve] = [createOwner(), createOwner(), createOwner()];
const recipients = [ann.recipient, ben.recipient];

/** A disk whose recovery key is `KEY`. */
const format = (uuid = UUID, of = recipients) => ({
  uuid,
  recovery: wrapForConsole(
    uuid,
    of.map((recipient) => ({ recipient, secret: KEY })),
  ),
});
/** A start of the machine with this disk. */
const start = (disk: ReturnType<typeof format>, of = recipients): ConsoleChallenge =>
  createConsoleChallenge({ ...disk, recipients: of });

/** What an owner types at the console of the machine. */
function answerOf(owner: Owner, { text }: Pick<ConsoleChallenge, 'text'>): Uint8Array {
  const challenge = bytesOf('challenge', text);
  const code = answerConsoleChallenge(challenge, owner.secret);
  if (code === undefined) throw new Error('no code');
  return bytesOf('code', code.reveal());
}

function bytesOf(kind: 'challenge' | 'code', text: string): Uint8Array {
  const decoded = decodeTyped(kind, text);
  if (decoded.kind === 'mistyped') throw new Error(decoded.why);
  return decoded.bytes;
}

describe('the code of an owner', () => {
  test('opens the disk, whichever of the owners makes it', () => {
    const machine = start(format());
    for (const owner of [ann, ben])
      expect(machine.open(answerOf(owner, machine))?.reveal()).toEqual(KEY.reveal());
  });

  test('gives the share of this owner, if each has an own one', () => {
    const shares = [ann, ben].map((_, at) => new Secret(new Uint8Array(33).fill(at)));
    const secrets = recipients.map((recipient, at) => ({ recipient, secret: shares[at] ?? KEY }));
    const machine = start({ uuid: UUID, recovery: wrapForConsole(UUID, secrets) });
    for (const [at, owner] of [ann, ben].entries())
      expect(machine.open(answerOf(owner, machine))?.reveal()).toEqual(shares[at]?.reveal());
  });

  test('opens no other disk, no other start of the machine, and no disk that was recovered since', () => {
    const disk = format();
    const machine = start(disk);
    const code = answerOf(ann, machine);
    expect(start(disk).open(code)).toBeUndefined();
    expect(start(format('f69a2e66-2bc8-4695-b852-75f129bb9e54')).open(code)).toBeUndefined();
    expect(start(format()).open(code)).toBeUndefined();
    // The record of one disk under the UUID of another one.
    const moved = start({ ...disk, uuid: 'f69a2e66-2bc8-4695-b852-75f129bb9e54' });
    expect(moved.open(answerOf(ann, moved))).toBeUndefined();
  });

  test('of anybody else opens nothing, also if the disk is theirs', () => {
    const machine = start(format());
    expect(machine.open(answerOf(eve, machine))).toBeUndefined();
    const prepared = start(format(UUID, [eve.recipient]));
    expect(prepared.open(answerOf(eve, prepared))).toBeUndefined();
    expect(prepared.open(answerOf(ann, prepared))).toBeUndefined();
  });

  test('is refused with any bit changed', () => {
    const machine = start(format());
    const code = answerOf(ann, machine);
    for (let bit = 0; bit < 128; bit++) {
      const at = bit >> 3;
      expect(machine.open(code.with(at, (code[at] ?? 0) ^ (1 << (bit & 7))))).toBeUndefined();
    }
  });

  test('says nothing about the secret of the disk: with the same disk it is another one at each start', () => {
    const disk = format();
    const codes = Array.from({ length: 20 }, () => encodeTyped('code', answerOf(ann, start(disk))));
    expect(new Set(codes).size).toBe(codes.length);
  });

  test.each([
    ['the key of the disk', 0],
    ['the key of the boot', 32],
  ])('is not made for a challenge in which %s is of small order', (_, at) => {
    const challenge = Buffer.from(bytesOf('challenge', start(format()).text)).fill(0, at, at + 32);
    expect(answerConsoleChallenge(challenge, ann.secret)).toBeUndefined();
  });
});

test('wrapForConsole() makes a new key and new ciphertexts each time', () => {
  const all = Array.from({ length: 4 }, () => format().recovery).flatMap(({ diskKey, wrapped }) => [
    diskKey,
    ...wrapped,
  ]);
  expect(new Set(all.map((bytes) => Buffer.from(bytes).toString('hex'))).size).toBe(12);
});

test('wrapForConsole() encrypts nothing twice to one recipient', () => {
  const secrets = [KEY, new Secret(new Uint8Array(32))].map((secret) => ({
    recipient: ann.recipient,
    secret,
  }));
  expect(() => wrapForConsole(UUID, secrets)).toThrow(RangeError);
});
