import { hash } from 'node:crypto';

/** Who opened the connection. Roles are in the binding, so evidence cannot be played back to its maker. */
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
export interface Bindings extends Readonly<Record<Role | 'session', Uint8Array>> {
  /** What the binding of each role is the SHA-512 of: for an issuer in another process, which wants to see it. */
  readonly statements: Readonly<Record<Role, Uint8Array>>;
}

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
  const stated = (whose: keyof typeof LABEL): Uint8Array => Buffer.concat([LABEL[whose], shared]);
  const statements = { client: stated('client'), server: stated('server') };
  return {
    client: bindingOfStatement(statements.client),
    server: bindingOfStatement(statements.server),
    session: bindingOfStatement(stated('session')),
    statements,
  };
}

export function bindingOfStatement(statement: Uint8Array): Uint8Array {
  return hash('sha512', statement, 'buffer');
}

/**
 * Whether this is the statement of an end of that role in that context, and of nothing else: exact label, exact context,
 * exact length. The other four parts are the session's.
 */
export function isStatementOf(statement: Uint8Array, role: Role, context: string): boolean {
  const head = Buffer.concat([LABEL[role], sha256(Buffer.from(context, 'utf8'))]);
  return statement.length === head.length + SESSION_BYTES && head.equals(statement.subarray(0, head.length));
}

/** Exporter, transcript and two hashes of keys. */
const SESSION_BYTES = 4 * 32;
export const MAX_STATEMENT_BYTES = 256;

const LABEL: Readonly<Record<Role | 'session', Uint8Array>> = {
  client: Buffer.from('aTLS/1 client evidence\0', 'ascii'),
  server: Buffer.from('aTLS/1 server evidence\0', 'ascii'),
  session: Buffer.from('aTLS/1 session\0', 'ascii'),
};

function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer');
}
