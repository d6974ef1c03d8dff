import { describe, expect, test } from '@jest/globals';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { seal, unseal, type SealContext, type Sealed } from './seal.ts';

const pair = () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keyPem = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  const pubKeyDer = new Uint8Array(createPublicKey(privateKey).export({ type: 'spki', format: 'der' }));
  return { keyPem, pubKeyDer };
};
const own = pair();
const context: SealContext = { kind: 'control-plane-keys', clusterId: 'c', nodeId: 'n' };
const text = new Secret(new TextEncoder().encode('the keys of the control plane'));
const sealed = seal(text, own.pubKeyDer, context);
const flipped = (bytes: Uint8Array, at: number): Uint8Array => bytes.with(at, (bytes.at(at) ?? 0) ^ 1);

test('unseal() decrypts what was sealed to its key, and seal() never produces the same ciphertext twice', () => {
  expect(unseal(sealed, own.keyPem, context).reveal()).toEqual(text.reveal());
  expect(seal(text, own.pubKeyDer, context).ciphertext).not.toEqual(sealed.ciphertext);
  expect(
    unseal(seal(new Secret(new Uint8Array()), own.pubKeyDer, context), own.keyPem, context).reveal(),
  ).toHaveLength(0);
});

describe('unseal() fails for', () => {
  const cases: readonly {
    name: string;
    given?: Partial<Sealed>;
    as?: Partial<SealContext>;
    keyPem?: Secret<string>;
  }[] = [
    { name: 'another private key', keyPem: pair().keyPem },
    { name: 'the id of another node', as: { nodeId: 'm' } },
    { name: 'the id of another cluster', as: { clusterId: 'd' } },
    { name: 'a character moved between cluster id and node id', as: { clusterId: 'cn', nodeId: '' } },
    { name: 'an altered ciphertext', given: { ciphertext: flipped(sealed.ciphertext, 0) } },
    {
      name: 'an altered authentication tag',
      given: { ciphertext: flipped(sealed.ciphertext, -1 + sealed.ciphertext.length) },
    },
    { name: 'an altered nonce', given: { nonce: flipped(sealed.nonce, 0) } },
    { name: 'a truncated nonce', given: { nonce: sealed.nonce.subarray(1) } },
    { name: 'an empty ciphertext', given: { ciphertext: new Uint8Array() } },
    { name: 'another ephemeral key', given: { ephemeralPublicKey: pair().pubKeyDer } },
    { name: 'an ephemeral key of zero bytes', given: { ephemeralPublicKey: new Uint8Array(91) } },
  ];
  test.each(cases)('$name', ({ given, as, keyPem }) => {
    expect(() => unseal({ ...sealed, ...given }, keyPem ?? own.keyPem, { ...context, ...as })).toThrow();
  });
});

test('seal() refuses keys other than P-256', () => {
  const others = [
    generateKeyPairSync('ed25519').publicKey,
    generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey,
    generateKeyPairSync('x25519').publicKey,
  ].map((key) => new Uint8Array(key.export({ type: 'spki', format: 'der' })));
  for (const other of [...others, new Uint8Array(), new Uint8Array(4096)])
    expect(() => seal(text, other, context)).toThrow(RangeError);
});
