import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, sign } from 'node:crypto';
import { isSignedByEd25519Key } from './ed25519.ts';
import { joinServerStatement, machineKeyStatement } from './join-statements.ts';

const session = new Uint8Array(64).fill(7);
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const pubKeyDer = new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }));
const signed = (statement: Uint8Array): Uint8Array => new Uint8Array(sign(undefined, statement, privateKey));

test('a signature over a join statement is valid for one session and one purpose', () => {
  const signature = signed(machineKeyStatement(session));
  expect(isSignedByEd25519Key(pubKeyDer, machineKeyStatement(session), signature)).toBe(true);
  expect(isSignedByEd25519Key(pubKeyDer, joinServerStatement(session), signature)).toBe(false);
  expect(isSignedByEd25519Key(pubKeyDer, machineKeyStatement(session.with(0, 8)), signature)).toBe(false);
  expect(() => machineKeyStatement(session.subarray(1))).toThrow(RangeError);
});

describe('isSignedByEd25519Key() refuses', () => {
  const statement = machineKeyStatement(session);
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  test.each([
    { name: 'an empty key and signature', key: new Uint8Array(), signature: new Uint8Array() },
    { name: 'a truncated signature', key: pubKeyDer, signature: signed(statement).subarray(1) },
    {
      name: 'a P-256 key',
      key: new Uint8Array(other.publicKey.export({ format: 'der', type: 'spki' })),
      signature: new Uint8Array(sign('sha256', statement, other.privateKey)).subarray(0, 64),
    },
    { name: '44 zero bytes in place of a key', key: new Uint8Array(44), signature: signed(statement) },
  ])('$name', ({ key, signature }) => {
    expect(isSignedByEd25519Key(key, statement, signature)).toBe(false);
  });
});
