import { describe, expect, test } from '@jest/globals';
import {
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
} from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { lengthPrefixed } from './length-prefix.ts';
import { P256_SPKI_PREFIX, p256KeyFromPoint } from './p256.ts';
import { seal, unseal } from './seal.ts';
import type { SealContext, Sealed } from './sealed.ts';
import { sealV1 } from './sealed-v1.ts';

const pair = () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keyPem = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  const pubKeyDer = new Uint8Array(createPublicKey(privateKey).export({ type: 'spki', format: 'der' }));
  return { keyPem, pubKeyDer };
};
const own = pair();
const context: SealContext = { kind: 'control-plane-keys', clusterId: 'c', nodeId: 'n' };
const text = new Secret(new TextEncoder().encode('the keys of the control plane'));
const sealed = await seal(text, own.pubKeyDer, context);
const sealedV1 = sealV1(text, own.pubKeyDer, context);
const flipped = (bytes: Uint8Array, at: number): Uint8Array => bytes.with(at, (bytes.at(at) ?? 0) ^ 1);
const bytes = (base64: string): Uint8Array => new Uint8Array(Buffer.from(base64, 'base64'));

describe.each([
  { name: 'HPKE', made: sealed, make: seal },
  { name: 'the v1 format from before HPKE', made: sealedV1, make: sealV1 },
])('a message sealed with $name', ({ made, make }) => {
  test('is decrypted by its recipient; sealing the same text twice gives different ciphertexts', async () => {
    expect((await unseal(made, own.keyPem, context)).reveal()).toEqual(text.reveal());
    expect((await make(text, own.pubKeyDer, context)).ciphertext).not.toEqual(made.ciphertext);
    const empty = await make(new Secret(new Uint8Array()), own.pubKeyDer, context);
    expect((await unseal(empty, own.keyPem, context)).reveal()).toHaveLength(0);
  });

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
    { name: 'an altered ciphertext', given: { ciphertext: flipped(made.ciphertext, 0) } },
    {
      name: 'an altered authentication tag',
      given: { ciphertext: flipped(made.ciphertext, -1 + made.ciphertext.length) },
    },
    { name: 'a truncated ciphertext', given: { ciphertext: made.ciphertext.subarray(0, 15) } },
    { name: 'an empty ciphertext', given: { ciphertext: new Uint8Array() } },
  ];
  test.each(cases)('is refused for $name', async ({ given, as, keyPem }) => {
    await expect(
      unseal({ ...made, ...given }, keyPem ?? own.keyPem, { ...context, ...as }),
    ).rejects.toThrow();
  });

  test('cannot be encrypted for a recipient key that is not a P-256 key', async () => {
    const others = [
      generateKeyPairSync('ed25519').publicKey,
      generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey,
      generateKeyPairSync('x25519').publicKey,
    ].map((key) => new Uint8Array(key.export({ type: 'spki', format: 'der' })));
    const offCurve = new Uint8Array(Buffer.concat([P256_SPKI_PREFIX, Buffer.alloc(64, 1)]));
    for (const other of [...others, new Uint8Array(), new Uint8Array(4096), offCurve])
      await expect((async () => make(text, other, context))()).rejects.toThrow(RangeError);
  });
});

describe('unseal() refuses', () => {
  const cases: readonly { name: string; given: Sealed }[] = [
    {
      name: 'an HPKE message that also has a nonce of the v1 format',
      given: { ...sealed, nonce: sealedV1.nonce },
    },
    {
      name: 'a v1 message that also has an encapsulated key of HPKE',
      given: { ...sealedV1, encapsulatedKey: sealed.encapsulatedKey },
    },
    {
      name: 'a message without the key of either format',
      given: { ...sealed, encapsulatedKey: new Uint8Array() },
    },
    {
      name: 'a truncated encapsulated key',
      given: { ...sealed, encapsulatedKey: sealed.encapsulatedKey.subarray(1) },
    },
    { name: 'a long encapsulated key', given: { ...sealed, encapsulatedKey: new Uint8Array(4096).fill(4) } },
    {
      name: 'an encapsulated key off the curve',
      given: { ...sealed, encapsulatedKey: flipped(sealed.encapsulatedKey, 64) },
    },
    {
      name: 'the encapsulated key of another message',
      given: { ...sealed, encapsulatedKey: pair().pubKeyDer.slice(-65) },
    },
    {
      name: 'an altered nonce of a v1 message',
      given: { ...sealedV1, nonce: flipped(sealedV1.nonce, 0) },
    },
    {
      name: 'a truncated nonce of a v1 message',
      given: { ...sealedV1, nonce: sealedV1.nonce.subarray(1) },
    },
    {
      name: 'a v1 message with the ephemeral key of another message',
      given: { ...sealedV1, ephemeralPublicKey: pair().pubKeyDer },
    },
    {
      name: 'an ephemeral key that consists of 91 zeros',
      given: { ...sealedV1, ephemeralPublicKey: new Uint8Array(91) },
    },
  ];
  test.each(cases)('$name', async ({ given }) => {
    await expect(unseal(given, own.keyPem, context)).rejects.toThrow();
  });
});

test('unseal() decrypts a message that a release without HPKE sealed', async () => {
  const key = createPrivateKey({
    key: Buffer.from(
      'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgELmRwVz2D8y+hJaa+EdGNXJueNTvPTYmRTT8c7InNpOhRANCAASX54bV6+OKpaO0QVOMX1zdpIhYrO338aBiyAxDj7tk92PxyXOWINvtUOVucwkfemZ478BybEv7WQmYjO66cJMa',
      'base64',
    ),
    format: 'der',
    type: 'pkcs8',
  });
  const keyPem = new Secret(key.export({ type: 'pkcs8', format: 'pem' }).toString());
  const message = {
    encapsulatedKey: new Uint8Array(),
    ephemeralPublicKey: bytes(
      'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEm85HQnV6ctqYKP6ApRDNb2yklHjR6f+CkL9GB6OgcvzzjxnoaNP7Bp4/4Wr+snMkG81F3nEM5Xu2C98v364Mlg==',
    ),
    nonce: bytes('u1AvqVJmj1y505gv'),
    ciphertext: bytes('s2Wkz36aV5laqqU3rMjtFcqNokYTOX4SnHvrn2t2HzMdMQ=='),
  };
  const opened = await unseal(message, keyPem, context);
  expect(new TextDecoder().decode(opened.reveal())).toBe('sealed before HPKE');
});

/**
 * A second implementation of RFC 9180 in this test: it proves that seal() makes standard HPKE messages, and not
 * messages that only our library can open.
 */
describe('seal()', () => {
  const hmac = (key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer =>
    createHmac('sha256', key).update(Buffer.concat(parts)).digest();
  const ascii = (value: string): Buffer => Buffer.from(value, 'ascii');
  const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff]);
  /** RFC 9180 section 4: LabeledExtract and LabeledExpand (at most 32 bytes). */
  const extract = (suite: Buffer, salt: Uint8Array, label: string, ikm: Uint8Array): Buffer =>
    hmac(salt, ascii('HPKE-v1'), suite, ascii(label), ikm);
  const expand = (suite: Buffer, prk: Buffer, label: string, info: Buffer, length: number): Buffer =>
    hmac(prk, u16(length), ascii('HPKE-v1'), suite, ascii(label), info, Buffer.from([1])).subarray(0, length);

  test('encrypts as RFC 9180 says: base mode, KEM 0x0010, KDF 0x0001, AEAD 0x0002', () => {
    const none = Buffer.alloc(0);
    const kem = Buffer.concat([ascii('KEM'), u16(0x0010)]);
    const hpke = Buffer.concat([ascii('HPKE'), u16(0x0010), u16(0x0001), u16(0x0002)]);
    const dh = diffieHellman({
      privateKey: createPrivateKey(own.keyPem.reveal()),
      publicKey: p256KeyFromPoint(sealed.encapsulatedKey.subarray(1)),
    });
    const kemContext = Buffer.concat([sealed.encapsulatedKey, own.pubKeyDer.subarray(-65)]);
    const shared = expand(kem, extract(kem, none, 'eae_prk', dh), 'shared_secret', kemContext, 32);
    const info = lengthPrefixed('cluster/sealed/hpke/v1', 'control-plane-keys', 'c', 'n');
    const schedule = Buffer.concat([
      Buffer.from([0]),
      extract(hpke, none, 'psk_id_hash', none),
      extract(hpke, none, 'info_hash', info),
    ]);
    const secret = extract(hpke, shared, 'secret', none);
    const key = expand(hpke, secret, 'key', schedule, 32);
    const decipher = createDecipheriv('aes-256-gcm', key, expand(hpke, secret, 'base_nonce', schedule, 12));
    decipher.setAuthTag(sealed.ciphertext.subarray(-16));
    const opened = [decipher.update(sealed.ciphertext.subarray(0, -16)), decipher.final()];
    expect(new Uint8Array(Buffer.concat(opened))).toEqual(text.reveal());
  });
});
