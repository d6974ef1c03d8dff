import { constants, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import { bits, boolean, explicit, integer, nothing, octets, oid, sequence, set, text, time } from './der.ts';

export type TestKeyKind = 'rsa' | 'p256' | 'p384' | 'ed25519';

export interface TestKey {
  readonly kind: TestKeyKind;
  readonly priv: KeyObject;
  readonly spki: Uint8Array;
}

/** A certificate of a fake CA, with its key, which can sign other certificates. */
export interface TestCertificate {
  readonly der: Uint8Array;
  readonly name: Uint8Array;
  readonly key: TestKey;
  readonly serial: bigint;
}

export interface TestExtension {
  readonly oid: string;
  readonly critical?: boolean;
  readonly value: Uint8Array;
}

export interface TestCertificateOptions {
  /** Attribute OID (or CN, O) and value, in order. */
  readonly name: readonly (readonly [string, string])[];
  readonly key: TestKey;
  /** Absent: the certificate is self-signed. */
  readonly issuer?: TestCertificate;
  readonly notBeforeMs?: number;
  readonly notAfterMs?: number;
  readonly serial?: bigint;
  /** undefined: the certificate has no basic constraints at all */
  readonly ca?: { readonly pathLength?: number } | undefined;
  /** Bits of key usage by RFC 5280 number. */
  readonly keyUsage?: readonly number[];
  readonly extensions?: readonly TestExtension[];
  /** Written outside the signed part, in place of the right algorithm. */
  readonly outerAlgorithm?: Uint8Array;
}

const NAMES: Readonly<Record<string, string>> = { CN: '2.5.4.3', O: '2.5.4.10' };
const YEAR_MS = 365 * 86_400_000;

/** The time at which fake certificates and collateral are valid. */
export const TEST_NOW_MS = Date.UTC(2026, 5, 1);

export function generateKey(kind: TestKeyKind): TestKey {
  const { privateKey: priv, publicKey } =
    kind === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : kind === 'ed25519'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('ec', { namedCurve: kind === 'p256' ? 'P-256' : 'P-384' });
  return { kind, priv, spki: new Uint8Array(publicKey.export({ format: 'der', type: 'spki' })) };
}

export function issueCertificate(options: TestCertificateOptions): TestCertificate {
  const { key, issuer, notBeforeMs = TEST_NOW_MS - YEAR_MS, notAfterMs = TEST_NOW_MS + YEAR_MS } = options;
  const name = encodeName(options.name);
  const serial = options.serial ?? BigInt(`0x${randomBytes(8).toString('hex')}`) >> 1n;
  const signer = issuer?.key ?? key;
  const algorithm = signatureAlgorithm(signer.kind);
  const extensions = allExtensions(options);
  const signed = sequence(
    explicit(0, integer(2)),
    integer(serial),
    algorithm,
    issuer?.name ?? name,
    sequence(time(notBeforeMs), time(notAfterMs)),
    name,
    key.spki,
    ...(extensions.length === 0 ? [] : [explicit(3, sequence(...extensions))]),
  );
  return { der: sealed(signed, signer, options.outerAlgorithm ?? algorithm), name, key, serial };
}

export interface TestCrlOptions {
  readonly issuer: TestCertificate;
  readonly revoked?: readonly bigint[];
  readonly thisUpdateMs?: number;
  readonly nextUpdateMs?: number;
  readonly extensions?: readonly TestExtension[];
}

export function issueCrl(options: TestCrlOptions): Uint8Array {
  const { issuer, revoked = [], thisUpdateMs = TEST_NOW_MS - 86_400_000 } = options;
  const { nextUpdateMs = TEST_NOW_MS + YEAR_MS, extensions = [] } = options;
  const algorithm = signatureAlgorithm(issuer.key.kind);
  const entries = revoked.map((serial) => sequence(integer(serial), time(thisUpdateMs)));
  const all = [{ oid: '2.5.29.20', value: integer(7) }, ...extensions].map(encodeExtension);
  const signed = sequence(
    integer(1),
    algorithm,
    issuer.name,
    time(thisUpdateMs),
    time(nextUpdateMs),
    ...(entries.length === 0 ? [] : [sequence(...entries)]),
    explicit(0, sequence(...all)),
  );
  return sealed(signed, issuer.key, algorithm);
}

/**
 * Signs like the issuer of a certificate with this kind of key: AMD's RSA-PSS, ECDSA with the hash of the
 * curve, Ed25519.
 */
export function signWith(key: TestKey, data: Uint8Array): Uint8Array {
  if (key.kind === 'ed25519') return sign(null, data, key.priv);
  if (key.kind === 'rsa') {
    const padding = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 };
    return sign('sha384', data, { key: key.priv, ...padding });
  }
  return sign(key.kind === 'p256' ? 'sha256' : 'sha384', data, key.priv);
}

export function toPem(der: Uint8Array, label = 'CERTIFICATE'): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n');
}

export function encodeName(attributes: readonly (readonly [string, string])[]): Uint8Array {
  return sequence(...attributes.map(([type, value]) => set(sequence(oid(NAMES[type] ?? type), text(value)))));
}

export function signatureAlgorithm(kind: TestKeyKind): Uint8Array {
  switch (kind) {
    case 'rsa': {
      const hash = sequence(oid('2.16.840.1.101.3.4.2.2'), nothing());
      const mask = sequence(oid('1.2.840.113549.1.1.8'), hash);
      const parameters = sequence(explicit(0, hash), explicit(1, mask), explicit(2, integer(48)));
      return sequence(oid('1.2.840.113549.1.1.10'), parameters);
    }
    case 'p256':
      return sequence(oid('1.2.840.10045.4.3.2'));
    case 'p384':
      return sequence(oid('1.2.840.10045.4.3.3'));
    case 'ed25519':
      return sequence(oid('1.3.101.112'));
  }
}

function allExtensions({ ca, keyUsage, extensions = [] }: TestCertificateOptions): Uint8Array[] {
  const length = ca?.pathLength;
  const constraints = ca && sequence(boolean(true), ...(length === undefined ? [] : [integer(length)]));
  return [
    ...(constraints === undefined ? [] : [{ oid: '2.5.29.19', critical: true, value: constraints }]),
    ...(keyUsage === undefined ? [] : [{ oid: '2.5.29.15', critical: true, value: usageBits(keyUsage) }]),
    ...extensions,
  ].map(encodeExtension);
}

function encodeExtension({ oid: type, critical = false, value }: TestExtension): Uint8Array {
  return sequence(oid(type), ...(critical ? [boolean(true)] : []), octets(value));
}

function usageBits(usages: readonly number[]): Uint8Array {
  const byte = usages.reduce((all, bit) => all | (0x80 >> bit), 0);
  const unused = byte === 0 ? 0 : 7 - Math.max(...usages);
  return bits(Uint8Array.of(byte), unused);
}

function sealed(signed: Uint8Array, key: TestKey, algorithm: Uint8Array): Uint8Array {
  return sequence(signed, algorithm, bits(signWith(key, signed)));
}
