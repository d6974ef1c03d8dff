import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createSoftKey } from '../../testing/tpm/fake-tpm.ts';
import { fuzz } from '../../testing/fuzz.ts';
import {
  der,
  encodeName,
  generateKey,
  issueCertificate,
  TEST_NOW_MS,
  type TestCertificate,
  type TestCertificateOptions,
  type TestKey,
} from '../../testing/pki/index.ts';
import { WireWriter } from '../../tpm/index.ts';
import { CertificateCache, parseCertificate } from '../x509/index.ts';
import { verifyEndorsement, type EndorsementTrust } from './endorsement.ts';

const DAY_MS = 86_400_000;
const CA = { ca: {}, keyUsage: [5, 6] } as const;
const KEY_AGREEMENT = 4;

const root = issueCertificate({ name: [['CN', 'Chipmaker root']], key: generateKey('p384'), ...CA });
const issuerKey = generateKey('p256');
const issuer = issueCertificate({ name: [['CN', 'Chipmaker 7']], key: issuerKey, issuer: root, ...CA });
const ekKey = generateKey('p256');
const attestationKey = createSoftKey().publicArea;

/** An EK public area of template L-2 around a key, with other attributes where a test wants them. */
function endorsementKeyOf(key: TestKey, attributes = 0x000300b2): Uint8Array {
  const point = key.spki.subarray(-64);
  return new WireWriter()
    .u16(0x0023)
    .u16(0x000b)
    .u32(attributes)
    .sized(new Uint8Array(32))
    .u16(0x0006)
    .u16(128)
    .u16(0x0043)
    .u16(0x0010)
    .u16(0x0003)
    .u16(0x0010)
    .sized(point.subarray(0, 32))
    .sized(point.subarray(32))
    .finish();
}

function usageOf(...oids: readonly string[]) {
  return { oid: '2.5.29.37', value: der.sequence(...oids.map((each) => der.oid(each))) };
}

const HARDWARE = encodeName([
  ['2.23.133.2.1', 'id:41424300'],
  ['2.23.133.2.2', 'Model 1'],
  ['2.23.133.2.3', 'id:0007'],
]);
const alternativeName = { oid: '2.5.29.17', critical: true, value: der.sequence(der.explicit(4, HARDWARE)) };

function certify(options: Partial<TestCertificateOptions> = {}): TestCertificate {
  return issueCertificate({
    name: [['CN', 'EK']],
    key: ekKey,
    issuer,
    keyUsage: [KEY_AGREEMENT],
    extensions: [usageOf('2.23.133.8.1'), alternativeName],
    ...options,
  });
}

function trustIn(...authorities: readonly TestCertificate[]): EndorsementTrust {
  return {
    roots: new Set([parseCertificate(root.der).fingerprint]),
    authorities: authorities.map((each) => each.der),
    pinnedKeys: new Set(),
  };
}

interface Judged {
  readonly certificate?: TestCertificate;
  readonly endorsementKey?: Uint8Array;
  readonly trust?: EndorsementTrust;
  readonly atMs?: number;
}

function judge({ certificate = certify(), endorsementKey, trust, atMs = TEST_NOW_MS }: Judged = {}) {
  return verifyEndorsement(
    {
      endorsementKey: endorsementKey ?? endorsementKeyOf(ekKey),
      endorsementCertificate: certificate.der,
      attestationKey,
    },
    { trust: trust ?? trustIn(issuer, root), cache: new CertificateCache(), nowMs: atMs },
  );
}

describe('verifyEndorsement()', () => {
  test('follows the certificate to a trusted root and returns the hardware that it names', () => {
    expect(judge()).toMatchObject({
      endorsementKeyId: createHash('sha256').update(ekKey.spki).digest('hex'),
      hardware: {
        manufacturer: 'id:41424300',
        model: 'Model 1',
        version: 'id:0007',
        issuer: 'CN=Chipmaker 7',
      },
    });
  });

  const expired = { notAfterMs: TEST_NOW_MS - DAY_MS };
  const oldIssuer = issueCertificate({
    name: [['CN', 'Chipmaker 7']],
    key: issuerKey,
    issuer: root,
    ...CA,
    ...expired,
  });
  const noCa = issueCertificate({
    name: [['CN', 'Chipmaker 7']],
    key: issuerKey,
    issuer: root,
    keyUsage: [0],
  });
  const untrusted = issueCertificate({ name: [['CN', 'Chipmaker root']], key: generateKey('p384'), ...CA });
  const untrustedIssuer = issueCertificate({
    name: [['CN', 'Chipmaker 7']],
    key: issuerKey,
    issuer: untrusted,
    ...CA,
  });
  const hostile: readonly { readonly name: string; readonly judged: Judged; readonly code: string }[] = [
    {
      name: 'an EK certificate without the usage for endorsement keys',
      judged: { certificate: certify({ extensions: [alternativeName] }) },
      code: 'enrol-certificate-usage',
    },
    {
      name: 'an EK certificate with another extended key usage',
      judged: { certificate: certify({ extensions: [usageOf('2.23.133.8.3'), alternativeName] }) },
      code: 'enrol-certificate-usage',
    },
    {
      name: 'an EK certificate whose key usage is signing',
      judged: { certificate: certify({ keyUsage: [0] }) },
      code: 'enrol-certificate-usage',
    },
    {
      name: 'an EK certificate with a malformed hardware name',
      judged: {
        certificate: certify({
          extensions: [usageOf('2.23.133.8.1'), { ...alternativeName, value: der.integer(1) }],
        }),
      },
      code: 'enrol-certificate-usage',
    },
    {
      name: 'an EK certificate for another key',
      judged: { certificate: certify({ key: generateKey('p256') }) },
      code: 'enrol-certificate-key',
    },
    { name: 'an expired EK certificate', judged: { certificate: certify(expired) }, code: 'x509-expired' },
    {
      name: 'an expired issuer of the EK certificate',
      judged: { trust: trustIn(oldIssuer, root) },
      code: 'x509-expired',
    },
    { name: 'an issuer that is not a CA', judged: { trust: trustIn(noCa, root) }, code: 'x509-not-a-ca' },
    {
      name: 'a root with a trusted name and another key',
      judged: { trust: trustIn(untrustedIssuer, untrusted) },
      code: 'x509-root-untrusted',
    },
    {
      name: 'an EK certificate with an unknown critical extension',
      judged: {
        certificate: certify({
          extensions: [usageOf('2.23.133.8.1'), { oid: '1.2.3', critical: true, value: der.integer(1) }],
        }),
      },
      code: 'x509-extension-critical',
    },
    {
      name: 'an endorsement key that can sign',
      judged: { endorsementKey: endorsementKeyOf(ekKey, 0x000700b2) },
      code: 'enrol-endorsement-key',
    },
    {
      name: 'an endorsement key that is not restricted',
      judged: { endorsementKey: endorsementKeyOf(ekKey, 0x000200b2) },
      code: 'enrol-endorsement-key',
    },
    {
      name: 'an endorsement key that can leave its TPM',
      judged: { endorsementKey: endorsementKeyOf(ekKey, 0x000300b0) },
      code: 'enrol-endorsement-key',
    },
  ];
  test.each(hostile)('refuses $name', ({ judged, code }) => {
    expect(() => judge(judged)).toThrow(expect.objectContaining({ code }));
  });

  test('throws only refusals for mutated certificates and keys', () => {
    const request = (input: Uint8Array): unknown => [
      refusal(() => judge({ certificate: { ...issuer, der: input } })),
      refusal(() => judge({ endorsementKey: input })),
    ];
    /** Returns the refusal, so that the test continues. Throws any other error, which is a bug. */
    function refusal(work: () => unknown): unknown {
      try {
        return work();
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^(enrol|x509|quote)-/) as unknown });
        return error;
      }
    }
    const seeds = [certify().der, endorsementKeyOf(ekKey)];
    expect(fuzz({ seeds, parse: request, codes: [] }).cases).toBeGreaterThan(50);
  });
});
