import {
  constants,
  createCipheriv,
  createDecipheriv,
  createECDH,
  createHmac,
  generateKeyPairSync,
  privateDecrypt,
} from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { Secret } from '../../secret/index.ts';
import { WireReader, WireWriter } from '../wire.ts';
import { commandHash, HmacSession, responseHash, sessionKey } from './hmac-session.ts';
import { kdfA, kdfE } from './kdf.ts';
import { shareSecret } from './share-secret.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const key = new Uint8Array(32).map((_, at) => at);
const [partyU, partyV] = [new Uint8Array(32).fill(0xaa), new Uint8Array(32).fill(0xbb)];
const EMPTY = new Uint8Array();

describe('key derivation, with results of openssl-kdf(1) 3.0.19', () => {
  // openssl kdf -keylen 32 -kdfopt mac:HMAC -kdfopt digest:SHA256 -kdfopt mode:COUNTER -kdfopt hexkey:0001…1f
  //   -kdfopt salt:LABEL -kdfopt hexinfo:aa…bb… KBKDF
  test.each([
    ['ATH', 'bb9b7f11a0bf57417f1322938de626ef68b0c8ec03dada9edc924d577c909845'],
    ['CFB', '30f31c8ddb5e03ba079d74cf53abe792a8b4e8dd5344b415b3bd4b77ba423b6f'],
  ])('kdfA() with the label %s', (label, expected) => {
    expect(hex(kdfA({ hash: 'sha256', key, label, contextU: partyU, contextV: partyV, bits: 256 }))).toBe(
      expected,
    );
  });

  test('kdfA() refuses to derive more bits than one block', () => {
    expect(() => kdfA({ hash: 'sha256', key, label: 'X', bits: 512 })).toThrow(RangeError);
  });

  test('kdfE()', () => {
    // openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt hexkey:0001…1f -kdfopt hexinfo:53454352455400aa…bb… SSKDF
    expect(hex(kdfE({ hash: 'sha256', shared: key, label: 'SECRET', partyU, partyV }))).toBe(
      '08fc920f9d3033e952b0e3490a04acb53ef7324548e744107218611d224bb249',
    );
  });

  test('sessionKey() derives from the salt and both nonces', () => {
    expect(hex(sessionKey(key, partyU, partyV))).toBe(
      'bb9b7f11a0bf57417f1322938de626ef68b0c8ec03dada9edc924d577c909845',
    );
  });
});

describe('shareSecret()', () => {
  test('encrypts a secret to an ECC key, for one label only', () => {
    const ecdh = createECDH('prime256v1');
    const point = ecdh.generateKeys();
    const [x, y] = [point.subarray(1, 33), point.subarray(33)];
    const { secret, encrypted } = shareSecret(
      { nameHash: 'sha256', key: { kind: 'ecc', curve: 'p256', x, y } },
      'SECRET',
    );
    const reader = new WireReader(encrypted, 'a point');
    const [ephemeralX, ephemeralY] = [reader.sized('x', 32), reader.sized('y', 32)];
    reader.end();
    const shared = ecdh.computeSecret(Buffer.concat([Buffer.of(4), ephemeralX, ephemeralY]));
    const derive = (label: string) => kdfE({ hash: 'sha256', shared, label, partyU: ephemeralX, partyV: x });
    expect(secret).toEqual(derive('SECRET'));
    expect(secret).not.toEqual(derive('IDENTITY'));
  });

  test('encrypts a secret to an RSA key, for one label only', () => {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const modulus = new Uint8Array(Buffer.from(publicKey.export({ format: 'jwk' }).n ?? '', 'base64url'));
    const { secret, encrypted } = shareSecret(
      { nameHash: 'sha256', key: { kind: 'rsa', bits: 2048, exponent: 65537, modulus } },
      'SECRET',
    );
    const open = (label: string) =>
      privateDecrypt(
        {
          key: privateKey,
          padding: constants.RSA_PKCS1_OAEP_PADDING,
          oaepHash: 'sha256',
          oaepLabel: Buffer.from(`${label}\0`),
        },
        encrypted,
      );
    expect(hex(open('SECRET'))).toBe(hex(secret));
    expect(() => open('IDENTITY')).toThrow('oaep');
  });
});

describe('HmacSession', () => {
  const nonceTpm = new Uint8Array(32).fill(3);
  const parameters = new WireWriter().sized(Buffer.from('secret')).u32(7).finish();
  const start = (): HmacSession => new HmacSession({ handle: 0x02000000, key: new Secret(key), nonceTpm });

  /** The formula of Part 1, 19.6.5: the nonce of the sender comes first. */
  const hmac = (value: Uint8Array, ...parts: readonly Uint8Array[]): Uint8Array => {
    const computed = createHmac('sha256', Buffer.concat([key, value]));
    for (const part of parts) computed.update(part);
    return new Uint8Array(computed.digest());
  };

  /** The cipher of Part 1, 21.3: key and IV follow from both nonces, and that of the sender comes first. */
  const cipherKey = (contextU: Uint8Array, contextV: Uint8Array) => {
    const both = kdfA({ hash: 'sha256', key, label: 'CFB', contextU, contextV, bits: 256 });
    return [both.subarray(0, 16), both.subarray(16)] as const;
  };

  test('encrypts the first parameter of a command and leaves the rest', () => {
    const session = start();
    const nonceCaller = session.begin();
    const encrypted = session.encryptRequest(parameters, EMPTY);
    const decipher = createDecipheriv('aes-128-cfb', ...cipherKey(nonceCaller, nonceTpm));
    expect(decipher.update(encrypted.subarray(2, 8)).toString()).toBe('secret');
    expect([hex(encrypted.subarray(0, 2)), hex(encrypted.subarray(8))]).toEqual(['0006', '00000007']);
  });

  test('authenticates a command with its nonces, its attributes and the authorization value, whose zeros at the end do not count', () => {
    const session = start();
    const nonceCaller = session.begin();
    const hash = commandHash(0x158, [Buffer.from('name')], parameters);
    const value = Uint8Array.of(1, 0, 2, 0, 0);
    expect(hex(session.hmacOfRequest({ hash, attributes: 0x41, value }))).toBe(
      hex(hmac(Uint8Array.of(1, 0, 2), hash, nonceCaller, nonceTpm, Uint8Array.of(0x41))),
    );
  });

  test('decrypts a response of the TPM, once', () => {
    const session = start();
    const nonceCaller = session.begin();
    const next = new Uint8Array(32).fill(4);
    const cipher = createCipheriv('aes-128-cfb', ...cipherKey(next, nonceCaller));
    const encrypted = new WireWriter().sized(cipher.update('secret')).u32(7).finish();
    const covered = { hash: responseHash(0x15e, encrypted), attributes: 0x41, value: EMPTY };
    const proof = hmac(EMPTY, covered.hash, next, nonceCaller, Uint8Array.of(0x41));
    expect(session.acceptResponse(covered, next, proof)).toBe(true);
    expect(hex(session.decryptResponse(encrypted, EMPTY))).toBe(hex(parameters));
    session.begin();
    expect(session.acceptResponse(covered, next, proof)).toBe(false);
  });

  test('refuses a response with another hash, nonce, attribute or HMAC', () => {
    const session = start();
    const nonceCaller = session.begin();
    const next = new Uint8Array(32).fill(4);
    const covered = { hash: responseHash(0x15e, parameters), attributes: 0x41, value: EMPTY };
    const proof = hmac(EMPTY, covered.hash, next, nonceCaller, Uint8Array.of(0x41));
    const other = { ...covered, hash: responseHash(0x15f, parameters) };
    expect(session.acceptResponse(other, next, proof)).toBe(false);
    expect(session.acceptResponse({ ...covered, attributes: 1 }, next, proof)).toBe(false);
    expect(session.acceptResponse(covered, nonceTpm, proof)).toBe(false);
    expect(session.acceptResponse(covered, next, proof.subarray(1))).toBe(false);
    expect(session.acceptResponse(covered, next, EMPTY)).toBe(false);
    expect(session.acceptResponse(covered, next, proof)).toBe(true);
  });
});
