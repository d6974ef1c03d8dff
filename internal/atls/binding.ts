import { createHash } from 'node:crypto';

/** Who opened the connection. Roles are in the binding, so evidence can't be played back to its maker. */
export type Role = 'client' | 'server';

/** What one TLS session is, as both of its ends see it and nobody else can make it. */
export interface Session {
  /** Configured at both ends and never sent: which cluster and service this connection is for. */
  readonly context: Uint8Array;
  /** DER SubjectPublicKeyInfo of the certificates that TLS proved. */
  readonly serverSpki: Uint8Array;
  readonly clientSpki: Uint8Array;
  /** The exporter of this TLS session (RFC 8446 §7.5) under `EXPORTER_LABEL`: `EXPORTER_BYTES` bytes. */
  readonly exportKey: (context: Uint8Array) => Uint8Array;
}

export const EXPORTER_LABEL = 'EXPERIMENTAL-aTLS/1 attestation binder';
export const EXPORTER_BYTES = 32;

/** SHA-256 over both HELLO frames as they were on the wire, headers included: versions, formats and nonces. */
export function transcriptHash(clientHello: Uint8Array, serverHello: Uint8Array): Uint8Array {
  return sha256(clientHello, serverHello);
}

/**
 * The 64 bytes that the evidence of each role signs: REPORT_DATA of a TEE, hashed into a TPM quote. The exporter
 * ties them to this very session; it leaves out the client's certificate (RFC 8446 §7.5), so both keys are named.
 */
export function bindingsOf(session: Session, transcript: Uint8Array): Readonly<Record<Role, Uint8Array>> {
  const shared = Buffer.concat([
    sha256(session.context),
    session.exportKey(transcript),
    transcript,
    sha256(session.serverSpki),
    sha256(session.clientSpki),
  ]);
  const bindingOf = (role: Role): Uint8Array =>
    createHash('sha512').update(`aTLS/1 ${role} evidence\0`, 'ascii').update(shared).digest();
  return { client: bindingOf('client'), server: bindingOf('server') };
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}
