import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fuzz } from '../../testing/fuzz.ts';
import {
  der,
  generateKey,
  issueCertificate,
  issueCrl,
  signatureAlgorithm,
  TEST_NOW_MS,
  toPem,
  type TestCertificate,
  type TestCertificateOptions,
  type TestKey,
} from '../../testing/pki/index.ts';
import { readFixture } from '../../testing/evidence/index.ts';
import { AMD_AUTHORITIES } from '../snp/amd-authorities.ts';
import {
  buildChain,
  CertificateCache,
  checkNotRevoked,
  decodeBase64,
  parseCertificate,
  parseCrl,
  parsePem,
  parsePublicKey,
  verifyCrl,
  verifyPath,
  X509Error,
  type Certificate,
} from './index.ts';

const DAY_MS = 86_400_000;
const CA = { ca: {}, keyUsage: [5, 6] } as const;

let keys: { readonly root: TestKey; readonly middle: TestKey; readonly leaf: TestKey };
let root: TestCertificate;
let middle: TestCertificate;

beforeAll(() => {
  keys = { root: generateKey('p384'), middle: generateKey('p256'), leaf: generateKey('p256') };
  root = issueCertificate({ name: [['CN', 'root']], key: keys.root, ...CA });
  middle = issueCertificate({ name: [['CN', 'middle']], key: keys.middle, issuer: root, ...CA });
});

function leafWith(options: Partial<TestCertificateOptions> = {}): TestCertificate {
  return issueCertificate({
    name: [['CN', 'leaf']],
    key: keys.leaf,
    issuer: middle,
    keyUsage: [0],
    ...options,
  });
}

function verify(
  chain: readonly Uint8Array[],
  options: { readonly atMs?: number; readonly leafCritical?: string[] } = {},
): void {
  const pinned = parseCertificate(root.der).fingerprint;
  verifyPath({
    chain: chain.map(parseCertificate),
    isPinned: (each) => each.fingerprint === pinned,
    atMs: options.atMs ?? TEST_NOW_MS,
    ...(options.leafCritical && { leafCritical: options.leafCritical }),
  });
}

const refusedWith = (code: string): unknown => expect.objectContaining({ code });

describe('verifyPath()', () => {
  test('accepts a path from a leaf over a CA to a pinned root', () => {
    expect(() => verify([leafWith().der, middle.der, root.der])).not.toThrow();
  });

  test('accepts certificates of every key kind', () => {
    for (const kind of ['rsa', 'p256', 'p384', 'ed25519'] as const) {
      const top = issueCertificate({ name: [['CN', kind]], key: generateKey(kind), ...CA });
      const leaf = leafWith({ issuer: top });
      const chain = [leaf.der, top.der].map(parseCertificate);
      expect(() => verifyPath({ chain, isPinned: () => true, atMs: TEST_NOW_MS })).not.toThrow();
    }
  });

  test('accepts a critical extension that the caller declares as known', () => {
    const extensions = [{ oid: '2.5.29.17', critical: true, value: der.sequence() }];
    const leaf = leafWith({ extensions });
    expect(() => verify([leaf.der, middle.der, root.der], { leafCritical: ['2.5.29.17'] })).not.toThrow();
  });

  const cases: readonly { name: string; given: () => readonly Uint8Array[]; atMs?: number; want: string }[] =
    [
      { name: 'an empty path', given: () => [], want: 'x509-chain-length' },
      {
        name: 'a path of nine certificates',
        given: () => Array.from({ length: 9 }, () => root.der),
        want: 'x509-chain-length',
      },
      {
        name: 'a path without its root',
        given: () => [leafWith().der, middle.der],
        want: 'x509-root-untrusted',
      },
      {
        name: 'a path to a root with a trusted name and another key',
        given: () => [
          leafWith().der,
          middle.der,
          issueCertificate({ name: [['CN', 'root']], key: generateKey('p384'), ...CA }).der,
        ],
        want: 'x509-root-untrusted',
      },
      {
        name: 'a path without the intermediate CA',
        given: () => [leafWith().der, root.der],
        want: 'x509-issuer-mismatch',
      },
      {
        name: 'a path whose intermediate CA has the right name and another key',
        given: () => [
          leafWith().der,
          issueCertificate({ name: [['CN', 'middle']], key: keys.leaf, issuer: root, ...CA }).der,
          root.der,
        ],
        want: 'x509-signature',
      },
      {
        name: 'a path whose key ids do not match',
        given: () => [
          leafWith({
            extensions: [{ oid: '2.5.29.35', value: der.sequence(der.tlv(0x80, Uint8Array.of(1))) }],
          }).der,
          issueCertificate({
            name: [['CN', 'middle']],
            key: keys.middle,
            issuer: root,
            ...CA,
            extensions: [{ oid: '2.5.29.14', value: der.octets(Uint8Array.of(2)) }],
          }).der,
          root.der,
        ],
        want: 'x509-issuer-mismatch',
      },
      {
        name: 'a path through an issuer that is not a CA',
        given: () => {
          const plain = issueCertificate({
            name: [['CN', 'plain']],
            key: keys.middle,
            issuer: root,
            keyUsage: [0],
          });
          return [leafWith({ issuer: plain }).der, plain.der, root.der];
        },
        want: 'x509-not-a-ca',
      },
      {
        name: 'a path whose leaf is a CA',
        given: () => [leafWith(CA).der, middle.der, root.der],
        want: 'x509-not-a-ca',
      },
      {
        name: 'a path longer than its root allows',
        given: () => {
          const short = issueCertificate({
            name: [['CN', 'root']],
            key: keys.root,
            ca: { pathLength: 0 },
            keyUsage: [5],
          });
          return [leafWith().der, middle.der, short.der];
        },
        want: 'x509-root-untrusted',
      },
      {
        name: 'a path longer than an intermediate CA allows',
        given: () => {
          const short = issueCertificate({
            name: [['CN', 'short']],
            key: keys.middle,
            issuer: root,
            ca: { pathLength: 0 },
            keyUsage: [5],
          });
          const below = issueCertificate({ name: [['CN', 'below']], key: keys.leaf, issuer: short, ...CA });
          return [leafWith({ issuer: below }).der, below.der, short.der, root.der];
        },
        want: 'x509-path-length',
      },
      {
        name: 'a path through a CA that may not sign certificates',
        given: () => {
          const mute = issueCertificate({
            name: [['CN', 'mute']],
            key: keys.middle,
            issuer: root,
            ca: {},
            keyUsage: [0, 6],
          });
          return [leafWith({ issuer: mute }).der, mute.der, root.der];
        },
        want: 'x509-key-usage',
      },
      {
        name: 'a path with a leaf that is not valid yet',
        given: () => [leafWith({ notBeforeMs: TEST_NOW_MS + DAY_MS }).der, middle.der, root.der],
        want: 'x509-not-yet-valid',
      },
      {
        name: 'a path with an expired leaf',
        given: () => [leafWith({ notAfterMs: TEST_NOW_MS - DAY_MS }).der, middle.der, root.der],
        want: 'x509-expired',
      },
      {
        name: 'a path with an expired CA',
        given: () => {
          const old = issueCertificate({
            name: [['CN', 'old']],
            key: keys.middle,
            issuer: root,
            ...CA,
            notAfterMs: TEST_NOW_MS - DAY_MS,
          });
          return [leafWith({ issuer: old }).der, old.der, root.der];
        },
        want: 'x509-expired',
      },
      {
        name: 'a path with an unknown critical extension',
        given: () => [
          leafWith({ extensions: [{ oid: '1.2.3', critical: true, value: der.nothing() }] }).der,
          middle.der,
          root.der,
        ],
        want: 'x509-extension-critical',
      },
      {
        name: 'a path with name constraints in a CA',
        given: () => {
          const bound = issueCertificate({
            name: [['CN', 'bound']],
            key: keys.middle,
            issuer: root,
            ...CA,
            extensions: [{ oid: '2.5.29.30', critical: true, value: der.sequence() }],
          });
          return [leafWith({ issuer: bound }).der, bound.der, root.der];
        },
        want: 'x509-extension-critical',
      },
    ];
  test.each(cases)('refuses $name', ({ given, want }) => {
    expect(() => verify(given())).toThrow(refusedWith(want));
  });

  test('refuses a path longer than its pinned root allows', () => {
    const top = issueCertificate({
      name: [['CN', 'top']],
      key: keys.root,
      ca: { pathLength: 0 },
      keyUsage: [5],
    });
    const below = issueCertificate({ name: [['CN', 'below']], key: keys.middle, issuer: top, ...CA });
    const chain = [leafWith({ issuer: below }).der, below.der, top.der].map(parseCertificate);
    expect(() => verifyPath({ chain, isPinned: () => true, atMs: TEST_NOW_MS })).toThrow(
      refusedWith('x509-path-length'),
    );
  });

  test('checks the dates of a certificate also if its signature is cached as verified', () => {
    const cache = new CertificateCache();
    const chain = [leafWith().der, middle.der, root.der].map((each) => cache.parse(each));
    verifyPath({ chain, isPinned: () => true, atMs: TEST_NOW_MS, cache });
    const later = { chain, isPinned: () => true, atMs: TEST_NOW_MS + 1000 * DAY_MS, cache };
    expect(() => verifyPath(later)).toThrow(refusedWith('x509-expired'));
  });
});

describe('parseCertificate()', () => {
  const broken: readonly { name: string; given: () => Uint8Array; want: string }[] = [
    {
      name: 'a certificate with a trailing byte',
      given: () => Buffer.concat([root.der, Buffer.of(0)]),
      want: 'x509-malformed',
    },
    {
      name: 'a certificate larger than 16 KiB',
      given: () => new Uint8Array(17 << 10),
      want: 'x509-malformed',
    },
    {
      name: 'a certificate whose inner and outer signature algorithms differ',
      given: () => leafWith({ outerAlgorithm: signatureAlgorithm('p384') }).der,
      want: 'x509-algorithm-mismatch',
    },
    {
      name: 'a certificate with a duplicate extension',
      given: () =>
        leafWith({
          extensions: [
            { oid: '1.2.3', value: der.nothing() },
            { oid: '1.2.3', value: der.nothing() },
          ],
        }).der,
      want: 'x509-extension-duplicate',
    },
    {
      name: 'a certificate without extensions',
      given: () => issueCertificate({ name: [['CN', 'x']], key: keys.leaf }).der,
      want: 'x509-malformed',
    },
    {
      name: 'a certificate that has a path length but is not a CA',
      given: () => leafWith({ extensions: [{ oid: '2.5.29.19', value: der.sequence(der.integer(0)) }] }).der,
      want: 'x509-malformed',
    },
    {
      name: 'a certificate with a trailing byte in its extended key usage',
      given: () =>
        leafWith({ extensions: [{ oid: '2.5.29.37', value: Buffer.concat([der.sequence(), Buffer.of(0)]) }] })
          .der,
      want: 'x509-malformed',
    },
    {
      name: 'a certificate signed with SHA-1',
      given: () => leafWith({ outerAlgorithm: der.sequence(der.oid('1.2.840.10045.4.1')) }).der,
      want: 'x509-algorithm-mismatch',
    },
  ];
  test.each(broken)('refuses $name', ({ given, want }) => {
    expect(() => parseCertificate(new Uint8Array(given()))).toThrow(refusedWith(want));
  });

  const weak: readonly { name: string; given: () => Uint8Array; want: string }[] = [
    {
      name: 'an RSA key below 2048 bits',
      given: () => rsaSpki(2n ** 1024n + 1n, 65537n),
      want: 'x509-algorithm-unsupported',
    },
    {
      name: 'an RSA key with exponent 3',
      given: () => rsaSpki(2n ** 2047n + 1n, 3n),
      want: 'x509-algorithm-unsupported',
    },
    {
      name: 'a key on an unsupported curve',
      given: () => ecSpki('1.3.132.0.35', 133),
      want: 'x509-algorithm-unsupported',
    },
    {
      name: 'a key with a compressed point',
      given: () => ecSpki('1.2.840.10045.3.1.7', 33),
      want: 'x509-malformed',
    },
    {
      name: 'a key whose point is not on its curve',
      given: () => ecSpki('1.2.840.10045.3.1.7', 65),
      want: 'x509-malformed',
    },
    {
      name: 'a key of an unsupported algorithm',
      given: () => der.sequence(der.sequence(der.oid('1.2.840.113549.1.1.10')), der.bits(Uint8Array.of(0))),
      want: 'x509-algorithm-unsupported',
    },
  ];
  test.each(weak)('refuses $name', ({ given, want }) => {
    expect(() => parsePublicKey(given())).toThrow(refusedWith(want));
  });

  test.each([
    ['made for this test', () => [leafWith().der, middle.der, root.der]],
    ['issued by AMD', () => amdChain()],
  ])('a chain that was %s is no longer trusted after a change of any byte', (_, chainOf) => {
    const cache = new CertificateCache();
    const ders = chainOf();
    const good = ders.map((each) => cache.parse(each));
    const trusted = good.at(-1)?.fingerprint;
    const atMs = TEST_NOW_MS;
    const verifyAll = (chain: readonly Certificate[]): void =>
      verifyPath({ chain, isPinned: (each) => each.fingerprint === trusted, atMs, cache });
    verifyAll(good);
    let cases = 0;
    for (const [index, original] of ders.entries()) {
      for (let at = 0; at < original.length; at++, cases++) {
        const changed = Uint8Array.from(original);
        changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
        if (passes(() => verifyAll(good.with(index, parseCertificate(changed))))) {
          throw new Error(`accepted: certificate ${index}, byte ${at}`);
        }
      }
    }
    expect(cases).toBeGreaterThan(1000);
  });

  test('arbitrary bytes are either parsed or refused with an error code', () => {
    const codes = ['x509-'];
    const seeds = [root.der, middle.der, leafWith().der];
    expect(fuzz({ seeds, parse: parseCertificate, codes }).refused).toBeGreaterThan(0);
    expect(
      fuzz({ seeds: [issueCrl({ issuer: middle, revoked: [1n, 2n] })], parse: parseCrl, codes }).refused,
    ).toBeGreaterThan(0);
  });
});

describe('buildChain()', () => {
  test('orders certificates from the leaf to the root', () => {
    const [leaf, m, r] = [leafWith().der, middle.der, root.der].map(parseCertificate) as [
      Certificate,
      Certificate,
      Certificate,
    ];
    expect(buildChain(leaf, [r, leaf, m])).toEqual([leaf, m, r]);
  });

  test('uses the issuer whose key signed, not the first one of that name', () => {
    const selfMade = issueCertificate({
      name: [['CN', 'middle']],
      key: generateKey('p256'),
      issuer: root,
      ...CA,
    });
    const leaf = parseCertificate(leafWith().der);
    const right = parseCertificate(middle.der);
    expect(buildChain(leaf, [parseCertificate(selfMade.der), right])[1]).toBe(right);
  });

  test('ends if an issuer is missing or if the issuers form a cycle', () => {
    const a = issueCertificate({
      name: [['CN', 'a']],
      key: keys.root,
      issuer: { ...root, name: leafWith({ name: [['CN', 'b']] }).name },
      ...CA,
    });
    const b = issueCertificate({ name: [['CN', 'b']], key: keys.middle, issuer: a, ...CA });
    expect(buildChain(parseCertificate(leafWith().der), [])).toHaveLength(1);
    expect(
      buildChain(parseCertificate(a.der), [parseCertificate(a.der), parseCertificate(b.der)]).length,
    ).toBeLessThanOrEqual(8);
  });
});

describe('certificate revocation lists', () => {
  const issuerOf = (certificate: TestCertificate): Certificate => parseCertificate(certificate.der);

  test('checkNotRevoked() refuses the listed certificate and accepts others', () => {
    const [bad, good] = [leafWith(), leafWith()];
    const crl = parseCrl(issueCrl({ issuer: middle, revoked: [bad.serial] }));
    verifyCrl(crl, issuerOf(middle), TEST_NOW_MS);
    expect(() => checkNotRevoked(parseCertificate(bad.der), crl)).toThrow(refusedWith('x509-revoked'));
    expect(() => checkNotRevoked(parseCertificate(good.der), crl)).not.toThrow();
  });

  const cases: readonly { name: string; given: () => unknown; want: string }[] = [
    {
      name: 'verifyCrl() refuses a CRL of another CA',
      given: () => verifyCrl(parseCrl(issueCrl({ issuer: root })), issuerOf(middle), TEST_NOW_MS),
      want: 'x509-crl-issuer',
    },
    {
      name: 'checkNotRevoked() refuses a certificate of another CA',
      given: () => checkNotRevoked(parseCertificate(middle.der), parseCrl(issueCrl({ issuer: middle }))),
      want: 'x509-crl-issuer',
    },
    {
      name: 'verifyCrl() refuses a CRL that is not valid yet',
      given: () =>
        verifyCrl(
          parseCrl(issueCrl({ issuer: middle, thisUpdateMs: TEST_NOW_MS + DAY_MS })),
          issuerOf(middle),
          TEST_NOW_MS,
        ),
      want: 'x509-crl-not-yet-valid',
    },
    {
      name: 'verifyCrl() refuses a CRL past its next update',
      given: () =>
        verifyCrl(
          parseCrl(issueCrl({ issuer: middle, nextUpdateMs: TEST_NOW_MS - 1000 })),
          issuerOf(middle),
          TEST_NOW_MS,
        ),
      want: 'x509-crl-expired',
    },
    {
      name: 'verifyCrl() refuses a CRL signed with another key',
      given: () =>
        verifyCrl(
          parseCrl(issueCrl({ issuer: { ...middle, key: generateKey('p256') } })),
          issuerOf(middle),
          TEST_NOW_MS,
        ),
      want: 'x509-signature',
    },
    {
      name: 'verifyCrl() refuses a CRL of a CA that may not sign CRLs',
      given: () => {
        const mute = issueCertificate({
          name: [['CN', 'mute']],
          key: keys.middle,
          issuer: root,
          ca: {},
          keyUsage: [5],
        });
        verifyCrl(parseCrl(issueCrl({ issuer: mute })), issuerOf(mute), TEST_NOW_MS);
      },
      want: 'x509-key-usage',
    },
    {
      name: 'parseCrl() refuses a delta CRL',
      given: () =>
        parseCrl(
          issueCrl({
            issuer: middle,
            extensions: [{ oid: '2.5.29.27', critical: true, value: der.integer(1) }],
          }),
        ),
      want: 'x509-extension-critical',
    },
    {
      name: 'parseCrl() refuses a trailing byte',
      given: () => parseCrl(new Uint8Array(Buffer.concat([issueCrl({ issuer: middle }), Buffer.of(0)]))),
      want: 'x509-malformed',
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
    expect(given).toThrow(refusedWith(want));
  });

  test('a CRL with any byte changed is refused', () => {
    const original = issueCrl({ issuer: middle, revoked: [77n] });
    const issuer = issuerOf(middle);
    for (let at = 0; at < original.length; at++) {
      const changed = Uint8Array.from(original);
      changed[at] = (changed[at] ?? 0) ^ 0x01;
      if (passes(() => verifyCrl(parseCrl(changed), issuer, TEST_NOW_MS)))
        throw new Error(`accepted: byte ${at}`);
    }
  });
});

describe('parsePem()', () => {
  const options = { label: 'CERTIFICATE', maxBlocks: 3 } as const;

  test('returns the encoded blocks, with LF and with CRLF line ends', () => {
    const pem = toPem(root.der) + toPem(middle.der);
    expect(parsePem(pem, options)).toEqual([root.der, middle.der]);
    expect(parsePem(pem.replaceAll('\n', '\r\n'), options)).toEqual([root.der, middle.der]);
    expect(parsePem(pem.trimEnd(), options)).toEqual([root.der, middle.der]);
  });

  const cases: readonly { name: string; given: () => string }[] = [
    { name: 'an empty text', given: () => '' },
    { name: 'text before the first block', given: () => `hello\n${toPem(root.der)}` },
    { name: 'text between blocks', given: () => `${toPem(root.der)}hello\n${toPem(root.der)}` },
    { name: 'an empty line between blocks', given: () => `${toPem(root.der)}\n${toPem(root.der)}` },
    { name: 'text after the last block', given: () => `${toPem(root.der)}hello` },
    { name: 'two line ends at the end', given: () => `${toPem(root.der)}\n` },
    { name: 'mixed line ends', given: () => toPem(root.der).replace('\n', '\r\n') },
    {
      name: 'a block with a header',
      given: () => toPem(root.der).replace('-----\n', '-----\nProc-Type: 4\n\n'),
    },
    { name: 'a block with the label of a CRL', given: () => toPem(root.der, 'X509 CRL') },
    { name: 'a block without an END line', given: () => toPem(root.der).replace(/-----END.*/, '') },
    { name: 'a space within a line', given: () => toPem(root.der).replace('MII', 'MI I') },
    {
      name: 'a short line in the middle of a block',
      given: () => toPem(root.der).replace(/(.{60})(.{4})\n/, '$1\n$2'),
    },
    {
      name: 'base64 with spare bits set',
      given: () => '-----BEGIN CERTIFICATE-----\nAB==\n-----END CERTIFICATE-----\n',
    },
    {
      name: 'base64 without padding',
      given: () => '-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n',
    },
    { name: 'an empty block', given: () => '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n' },
    { name: 'more blocks than allowed', given: () => toPem(root.der).repeat(4) },
    { name: 'a text larger than 1 MiB', given: () => 'A'.repeat(2 << 20) },
  ];
  test.each(cases)('refuses $name', ({ given }) => {
    expect(() => parsePem(given(), options)).toThrow(refusedWith('x509-pem-malformed'));
  });

  test('decodeBase64() accepts exactly one encoding of each value', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(), fc.nat(), (content, at, code) => {
        const text = Buffer.from(content).toString('base64');
        expect(decodeBase64(text)).toEqual(content);
        const changed =
          text.slice(0, at % (text.length + 1)) +
          String.fromCharCode(code % 128) +
          text.slice((at % (text.length + 1)) + 1);
        const decoded = decodeBase64(changed);
        return changed === text || decoded === undefined || Buffer.compare(decoded, content) !== 0;
      }),
    );
  });
});

function passes(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (error instanceof X509Error) return false;
    throw error;
  }
}

/** A chain of AMD with a chip certificate as leaf, because a leaf must not be a CA. */
function amdChain(): Uint8Array[] {
  const [ark, ask] = AMD_AUTHORITIES.Milan.map((each) => new Uint8Array(Buffer.from(each, 'base64')));
  return [readFixture('snp', 'milan.vcek'), ask ?? new Uint8Array(), ark ?? new Uint8Array()];
}

function rsaSpki(modulus: bigint, exponent: bigint): Uint8Array {
  const key = der.sequence(der.integer(modulus), der.integer(exponent));
  return der.sequence(der.sequence(der.oid('1.2.840.113549.1.1.1'), der.nothing()), der.bits(key));
}

function ecSpki(curve: string, length: number): Uint8Array {
  const point = new Uint8Array(length).fill(5);
  point[0] = length % 2 === 1 && length > 40 ? 4 : 2;
  return der.sequence(der.sequence(der.oid('1.2.840.10045.2.1'), der.oid(curve)), der.bits(point));
}
