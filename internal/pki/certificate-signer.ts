import type { AuthorityKeyIdentifierExtension, Extension, Name, X509Certificate } from '@peculiar/x509';
import { randomBytes, webcrypto } from 'node:crypto';
import { CLOCK_TOLERANCE_MS, DAY_MS } from '../clock/index.ts';
import { loadX509 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { requireSupported, webPrivateKey, webPublicKey } from './keys.ts';

const CA_YEARS = 10;
/** The subject attribute that the Kubernetes API server reads as the user's uid (k8s.io/apimachinery/pkg/apis/asn1). */
const KUBERNETES_UID = '1.3.6.1.4.1.57683.2';

/** Extended key usage: TLS server or TLS client. */
export type Usage = 'server' | 'client';

/** The content of an end-entity certificate. The signer does not check the content, so its caller must check it. */
export interface LeafSpec {
  readonly commonName: string;
  readonly organization?: string;
  /** The user's uid, for a client certificate of the Kubernetes API. */
  readonly userId?: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly pubKeyDer: Uint8Array;
  readonly usages: readonly [Usage, ...Usage[]];
  readonly names: readonly SubjectName[];
  readonly validDays: number;
}

/** One subject alternative name. */
export type SubjectName = { readonly type: 'dns' | 'ip' | 'url'; readonly value: string };

/**
 * Signs certificates for one CA. Callers know the CA's certificate, never its key, so that the key can be in a separate
 * process without network (joinservice/signer).
 */
export interface CertificateSigner {
  readonly caPem: string;
  /** Returns the certificate in PEM; a cross-certificate may follow it. */
  issue(spec: LeafSpec): Promise<string>;
}

/** Creates a self-signed CA certificate (PEM) that is valid for ten years. */
export async function createCaCertPem(options: {
  readonly commonName: string;
  readonly keyPem: Secret<string>;
  readonly nowMs: number;
  /**
   * How many other CAs may be between this one and an end-entity certificate (RFC 5280 4.2.1.9). 0, the default: none. A CA that
   * is to sign its successor (`createCrossCertPem()`) needs 1.
   */
  readonly pathLength?: 0 | 1;
}): Promise<string> {
  const x509 = await loadX509();
  const { KeyUsageFlags } = x509;
  const publicKey = webPublicKey(options.keyPem);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: randomSerial(),
      name: [{ CN: [options.commonName] }],
      ...datesFrom(options.nowMs, CA_YEARS * 365),
      keys: { publicKey, privateKey: webPrivateKey(options.keyPem) },
      extensions: [
        new x509.BasicConstraintsExtension(true, options.pathLength ?? 0, true),
        new x509.KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return pem(certificate);
}

/** Signs with a CA key in memory. */
export class KeyCertificateSigner implements CertificateSigner {
  readonly caPem: string;
  readonly #keyPem: Secret<string>;
  readonly #nowMs: () => number;
  readonly #crossPem: string | undefined;

  constructor(options: {
    readonly caPem: string;
    readonly keyPem: Secret<string>;
    readonly nowMs: () => number;
    /**
     * Cross-certificate of this CA (cross-certificate.ts). `issue()` appends it to each server certificate, and the
     * server sends both.
     */
    readonly crossPem?: string | undefined;
  }) {
    this.caPem = options.caPem;
    this.#keyPem = options.keyPem;
    this.#nowMs = options.nowMs;
    this.#crossPem = options.crossPem;
  }

  async issue(spec: LeafSpec): Promise<string> {
    const x509 = await loadX509();
    const issuer = await issuerOf(this.caPem);
    requireSupported(spec.pubKeyDer);
    const publicKey = new x509.PublicKey(Buffer.from(spec.pubKeyDer));
    const subject = [
      { CN: [spec.commonName] },
      ...(spec.organization === undefined ? [] : [{ O: [spec.organization] }]),
      ...(spec.userId === undefined ? [] : [{ [KUBERNETES_UID]: [spec.userId] }]),
    ];
    const certificate = await x509.X509CertificateGenerator.create(
      {
        serialNumber: randomSerial(),
        issuer: issuer.name,
        subject,
        ...datesFrom(this.#nowMs(), spec.validDays),
        publicKey,
        signingKey: webPrivateKey(this.#keyPem),
        extensions: [
          ...(await sharedExtensions()),
          new x509.ExtendedKeyUsageExtension(spec.usages.map((usage) => PURPOSES[usage])),
          await x509.SubjectKeyIdentifierExtension.create(publicKey, false, webcrypto),
          issuer.keyIdentifier,
          ...(spec.names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension([...spec.names])]),
        ],
      },
      webcrypto,
    );
    const chain = spec.usages.includes('server') ? this.#crossPem : undefined;
    return chain === undefined ? pem(certificate) : `${pem(certificate)}${chain.trim()}\n`;
  }
}

let shared: Promise<readonly Extension[]> | undefined;

/**
 * Two extensions of every end-entity certificate. They are encoded once, because encoding one takes the library about
 * as long as signing.
 */
function sharedExtensions(): Promise<readonly Extension[]> {
  shared ??= loadX509().then(({ BasicConstraintsExtension, KeyUsageFlags, KeyUsagesExtension }) => [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
  ]);
  return shared;
}

/** The fields that a certificate copies from the certificate of its CA. */
interface Issuer {
  readonly name: Name;
  readonly keyIdentifier: AuthorityKeyIdentifierExtension;
}

/**
 * Size of the cache of parsed CA certificates, because parsing one takes as long as signing. A ticket needs the
 * certificates of three CAs.
 */
const MAX_ISSUERS = 8;
const issuers = new Map<string, Issuer>();

async function issuerOf(caPem: string): Promise<Issuer> {
  const known = issuers.get(caPem);
  if (known !== undefined) return known;
  const { X509Certificate: Certificate } = await loadX509();
  const ca = new Certificate(caPem);
  const issuer = { name: ca.subjectName, keyIdentifier: await authorityKeyIdentifierOf(ca) };
  if (issuers.size >= MAX_ISSUERS) issuers.clear();
  issuers.set(caPem, issuer);
  return issuer;
}

/**
 * Copies the key identifier from the CA certificate (RFC 5280 4.2.1.1). Computing it from the key could give another
 * value, because Go derives it with SHA-256 (RFC 7093), and OpenSSL does not accept an issuer whose identifier differs.
 */
export async function authorityKeyIdentifierOf(
  ca: X509Certificate,
): Promise<AuthorityKeyIdentifierExtension> {
  const x509 = await loadX509();
  const own = ca.getExtension(x509.SubjectKeyIdentifierExtension);
  if (own === null) return x509.AuthorityKeyIdentifierExtension.create(ca, false, webcrypto);
  return new x509.AuthorityKeyIdentifierExtension(own.keyId, false);
}

/** Extended key usages (RFC 5280 4.2.1.12). */
export const PURPOSES = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' } as const;

function datesFrom(nowMs: number, days: number): { readonly notBefore: Date; readonly notAfter: Date } {
  return { notBefore: new Date(nowMs - CLOCK_TOLERANCE_MS), notAfter: new Date(nowMs + days * DAY_MS) };
}

/** RFC 5280 4.1.2.2: positive, unique, at most 20 octets. */
export function randomSerial(): string {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40, 0);
  return bytes.toString('hex');
}

export function pem(certificate: X509Certificate): string {
  return `${certificate.toString('pem').trim()}\n`;
}
