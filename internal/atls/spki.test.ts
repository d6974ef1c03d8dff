import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { X509Certificate } from 'node:crypto';
import { createTestIdentity } from '../testing/atls/index.ts';
import { AtlsError } from './errors.ts';
import { p256SpkiOf } from './spki.ts';

const certificate = new X509Certificate((await createTestIdentity()).certPem);
const refused = expect.objectContaining({ code: 'atls-tls-certificate' });

describe('p256SpkiOf()', () => {
  test('extracts the same bytes as OpenSSL', () => {
    const want = certificate.publicKey.export({ type: 'spki', format: 'der' });
    expect(Buffer.compare(p256SpkiOf(certificate.raw), want)).toBe(0);
  });

  test('refuses a key of another curve', async () => {
    const { certPem } = await createTestIdentity('P-384');
    expect(() => p256SpkiOf(new X509Certificate(certPem).raw)).toThrow(refused);
  });

  test('refuses a compressed point', () => {
    const der = Buffer.from(certificate.raw);
    const at = der.indexOf(Buffer.from('03420004', 'hex'));
    der[at + 3] = 0x02;
    expect(() => p256SpkiOf(der)).toThrow(refused);
  });

  test('refuses bytes after a certificate', () => {
    expect(() => p256SpkiOf(Buffer.concat([certificate.raw, Buffer.alloc(1)]))).toThrow(refused);
  });

  test('refuses every truncated certificate', () => {
    for (let length = 0; length < certificate.raw.length; length++) {
      expect(() => p256SpkiOf(certificate.raw.subarray(0, length))).toThrow(refused);
    }
  });

  test('throws only its coded error for arbitrary bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(certificate.raw.length - 1), (bytes, at) => {
        const mutated = Buffer.from(certificate.raw);
        mutated.set(bytes.subarray(0, mutated.length - at), at);
        for (const given of [bytes, mutated]) {
          try {
            p256SpkiOf(given);
          } catch (error) {
            expect(error).toBeInstanceOf(AtlsError);
          }
        }
      }),
    );
  });
});
