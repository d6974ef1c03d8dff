import { KeyObject, webcrypto, X509Certificate } from 'node:crypto';
import type { SecureContext } from 'node:tls';
import { type Clock, DAY_MS } from '../clock/index.ts';
import { loadX509 } from '../crypto/index.ts';
import { tls13Context, type TlsIdentity } from '../rpc/index.ts';
import { Secret } from '../secret/index.ts';
import { AtlsError } from './errors.ts';
import { p256SpkiOf } from './spki.ts';
import { ALPN_ID } from './wire.ts';

const ROTATION_MS = 60 * 60 * 1000;
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** The TLS key of one end. Created once and shared by all connections: a secure context costs 1.5ms and 40 KiB. */
export interface TlsKeys {
  readonly secureContext: SecureContext;
  /** SubjectPublicKeyInfo (DER) of the certificate. */
  readonly spki: Uint8Array;
}

/** Provides the TLS key of one end. */
export interface TlsKeySource {
  current(): Promise<TlsKeys>;
}

/**
 * A self-signed P-256 certificate that exists in this process only and is replaced every hour. The evidence, not the
 * certificate, makes its key trusted. Client and server in one process need a source each, because an end refuses a
 * peer that has the same key as this end.
 */
export class RotatingKeys implements TlsKeySource {
  readonly #clock: Clock;
  #current: { readonly keys: Promise<TlsKeys>; readonly untilMs: number } | undefined;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  current(): Promise<TlsKeys> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#current === undefined || nowMs >= this.#current.untilMs) {
      const keys = selfSigned(this.#clock.nowMs()).then(tlsKeysFrom);
      const made = { keys, untilMs: nowMs + ROTATION_MS };
      this.#current = made;
      keys.catch(() => {
        if (this.#current === made) this.#current = undefined; // the next connection creates another certificate
      });
    }
    return this.#current.keys;
  }
}

/** The keys of a certificate. Throws AtlsError `atls-config` unless its key is P-256. */
export function tlsKeysFrom(identity: TlsIdentity): TlsKeys {
  try {
    const spki = p256SpkiOf(new X509Certificate(identity.certPem).raw);
    return { secureContext: tls13Context(identity), spki };
  } catch (error) {
    throw new AtlsError('atls-config', 'reading the TLS certificate of this end', { cause: error });
  }
}

async function selfSigned(nowMs: number): Promise<TlsIdentity> {
  const { X509CertificateGenerator } = await loadX509();
  const keys = await webcrypto.subtle.generateKey(P256, true, ['sign', 'verify']);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [ALPN_ID] }],
    // Peers ignore the dates: a machine with a wrong clock must be able to attest.
    notBefore: new Date(nowMs - DAY_MS),
    notAfter: new Date(nowMs + DAY_MS),
    signingAlgorithm: P256,
    keys,
  });
  const keyPem = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' });
  return { certPem: certificate.toString('pem'), keyPem: new Secret(String(keyPem)) };
}
