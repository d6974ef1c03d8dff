import { describe, expect, test } from '@jest/globals';
import {
  canonicalSignature,
  COUNTER_ATTRIBUTES,
  encodeSignature,
  NV_ATTRIBUTE,
  nvNameOf,
  parseSignature,
  WireWriter,
  type NvPublic,
} from '../../tpm/index.ts';
import {
  AK_ATTRIBUTES,
  createSoftKey,
  encodeStatement,
  signStatement,
  type Statement,
} from '../../testing/tpm/fake-tpm.ts';
import { verifyCounterCertificate } from './nv-certificate.ts';

const key = createSoftKey();
const extraData = new Uint8Array(32).fill(7);
const index: NvPublic = {
  index: 0x01800001,
  nameHash: 'sha256',
  attributes: COUNTER_ATTRIBUTES | NV_ATTRIBUTE.written,
  authPolicy: new Uint8Array(),
  sizeBytes: 8,
};
const fresh = { ...index, attributes: COUNTER_ATTRIBUTES };

interface Certified {
  readonly of?: NvPublic;
  readonly offset?: number;
  readonly contents?: Uint8Array;
  readonly statement?: Partial<Statement>;
  readonly by?: typeof key;
}

function certify({ of = index, offset = 0, contents, statement = {}, by = key }: Certified = {}) {
  const value = contents ?? new WireWriter().u64(42n).finish();
  const body = new WireWriter().sized(nvNameOf(of)).u16(offset).sized(value).finish();
  const attest = encodeStatement(by, { type: 0x8014, extraData, body, ...statement });
  const signature = encodeSignature(canonicalSignature(parseSignature(signStatement(by, attest)), 'p256'));
  return { attest, signature };
}

describe('verifyCounterCertificate()', () => {
  const options = { attestationKey: key.publicArea, extraData, index };

  test('returns the value of the counter', () => {
    expect(verifyCounterCertificate(certify(), options)).toBe(42n);
  });

  const hostile: readonly { readonly name: string; readonly certified: Certified; readonly code: string }[] =
    [
      {
        name: 'of another NV index',
        certified: { of: { ...index, index: 0x01800002 } },
        code: 'quote-nv-index',
      },
      {
        name: 'of an NV index with other attributes',
        certified: { of: { ...index, attributes: 2 } },
        code: 'quote-nv-index',
      },
      { name: 'of an NV index without a value', certified: { of: fresh }, code: 'quote-nv-index' },
      { name: 'from an offset other than 0', certified: { offset: 1 }, code: 'quote-nv-range' },
      {
        name: 'of only the first 4 of the counter’s 8 bytes',
        certified: { contents: new Uint8Array(4) },
        code: 'quote-nv-range',
      },
      {
        name: 'with the nonce of another request',
        certified: { statement: { extraData: new Uint8Array(32) } },
        code: 'quote-binding',
      },
      {
        name: 'whose statement is a quote (another type)',
        certified: { statement: { type: 0x8018 } },
        code: 'quote-type',
      },
      {
        name: 'whose statement has no TPM magic number',
        certified: { statement: { magic: 0 } },
        code: 'quote-magic',
      },
      { name: 'signed by another key', certified: { by: createSoftKey() }, code: 'quote-signature' },
      {
        name: 'with another qualified signer',
        certified: { statement: { qualifiedSigner: new Uint8Array(34) } },
        code: 'quote-qualified-signer',
      },
    ];
  test.each(hostile)('refuses an NV certificate $name', ({ certified, code }) => {
    expect(() => verifyCounterCertificate(certify(certified), options)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test('refuses a signing key that can also sign data from outside the TPM', () => {
    const loose = createSoftKey(AK_ATTRIBUTES & ~0x10000);
    const attempt = () =>
      verifyCounterCertificate(certify({ by: loose }), { ...options, attestationKey: loose.publicArea });
    expect(attempt).toThrow(expect.objectContaining({ code: 'quote-key-attributes' }));
  });

  test('refuses a change of any bit in statement or signature', () => {
    const { attest, signature } = certify();
    for (let at = 0; at < attest.length + signature.length; at++) {
      const both = Buffer.concat([attest, signature]);
      both[at] = (both[at] ?? 0) ^ 1;
      const altered = { attest: both.subarray(0, attest.length), signature: both.subarray(attest.length) };
      expect(() => verifyCounterCertificate(altered, options)).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^quote-/) }),
      );
    }
  });
});
