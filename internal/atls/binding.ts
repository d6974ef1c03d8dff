import { hash } from 'node:crypto';

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

/** What both ends sign or name: the evidence of each role, and the session itself. */
export type Bindings = Readonly<Record<Role | 'session', Uint8Array>>;

/** SHA-256 over both HELLO frames as they were on the wire, headers included: versions, formats and nonces. */
export function transcriptHash(clientHello: Uint8Array, serverHello: Uint8Array): Uint8Array {
  return sha256(Buffer.concat([clientHello, serverHello]));
}

/**
 * The 64 bytes that the evidence of each role signs: REPORT_DATA of a TEE, hashed into a TPM quote. The exporter
 * ties them to this very session; it leaves out the client's certificate (RFC 8446 §7.5), so both keys are named.
 * `session` is the same at both ends: what a program above this one signs to prove a key of its own in this session.
 */
export function bindingsOf(session: Session, transcript: Uint8Array): Bindings {
  const shared = Buffer.concat([
    sha256(session.context),
    session.exportKey(transcript),
    transcript,
    sha256(session.serverSpki),
    sha256(session.clientSpki),
  ]);
  const bindingOf = (whose: keyof Bindings): Uint8Array =>
    hash('sha512', Buffer.concat([LABEL[whose], shared]), 'buffer');
  return { client: bindingOf('client'), server: bindingOf('server'), session: bindingOf('session') };
}

const LABEL: Bindings = {
  client: Buffer.from('aTLS/1 client evidence\0', 'ascii'),
  server: Buffer.from('aTLS/1 server evidence\0', 'ascii'),
  session: Buffer.from('aTLS/1 session\0', 'ascii'),
};

function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer');
}
