import { hash } from 'node:crypto';

/** aTLS context of the init port, on a machine that becomes the first node of a cluster. */
export const INIT_CONTEXT = 'cluster/init/v1';

/** aTLS context of the join service. It has no cluster id, because a joining machine does not know it yet. */
export const JOIN_CONTEXT = 'cluster/join/v1';

/** Which end opened the connection. Part of the binding, so that evidence cannot be reflected to its sender. */
export type Role = 'client' | 'server';

/** The values that identify one TLS session. Both ends have the same values, and no third party can produce them. */
export interface Session {
  /** The cluster and service that this connection is for; configured at both ends and never sent. */
  readonly context: Uint8Array;
  /** SubjectPublicKeyInfo (DER) of each end's certificate. TLS proved that the end holds the private key. */
  readonly serverSpki: Uint8Array;
  readonly clientSpki: Uint8Array;
  /**
   * Exports keying material of this TLS session (RFC 8446 §7.5) with `EXPORTER_LABEL`; returns `EXPORTER_BYTES` bytes.
   */
  readonly exportKey: (context: Uint8Array) => Uint8Array;
}

/** Label of the TLS exporter. */
export const EXPORTER_LABEL = 'EXPERIMENTAL-aTLS/1 attestation binder';
/** Size of the TLS exporter's output. */
export const EXPORTER_BYTES = 32;

/**
 * Three 64-byte values. The evidence of each role is bound to the value of its role; programs bind their own proofs to
 * `session`.
 */
export interface Bindings extends Readonly<Record<Role | 'session', Uint8Array>> {
  /**
   * For each role, the statement whose SHA-512 is the binding. An issuer in another process checks this statement
   * before it computes the binding.
   */
  readonly statements: Readonly<Record<Role, Uint8Array>>;
}

/** SHA-256 over both HELLO frames as they were on the wire, headers included. Covers versions, formats and nonces. */
export function transcriptHash(clientHello: Uint8Array, serverHello: Uint8Array): Uint8Array {
  return sha256(Buffer.concat([clientHello, serverHello]));
}

/**
 * The 64 bytes that evidence of each role is bound to: REPORT_DATA of a TEE, or hashed into a TPM quote. The TLS
 * exporter ties them to this session. Both public keys are included because the exporter does not cover the client's
 * certificate (RFC 8446 §7.5). `session` is the same at both ends: a program signs it to prove to this peer that it
 * holds a private key.
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

/** The binding that belongs to a statement: its SHA-512. */
export function bindingOfStatement(statement: Uint8Array): Uint8Array {
  return hash('sha512', statement, 'buffer');
}

/**
 * Whether these bytes are the statement of an end with that role in that context. Compares label, context and length;
 * the other four parts differ in every session and are not checked.
 */
export function isStatementOf(statement: Uint8Array, role: Role, context: string): boolean {
  const head = Buffer.concat([LABEL[role], sha256(Buffer.from(context, 'utf8'))]);
  return statement.length === head.length + SESSION_BYTES && head.equals(statement.subarray(0, head.length));
}

/** Exporter, transcript hash and the hashes of both keys. */
const SESSION_BYTES = 4 * 32;
/** Size limit of a statement. */
export const MAX_STATEMENT_BYTES = 256;

const LABEL: Readonly<Record<Role | 'session', Uint8Array>> = {
  client: Buffer.from('aTLS/1 client evidence\0', 'ascii'),
  server: Buffer.from('aTLS/1 server evidence\0', 'ascii'),
  session: Buffer.from('aTLS/1 session\0', 'ascii'),
};

function sha256(bytes: Uint8Array): Uint8Array {
  return hash('sha256', bytes, 'buffer');
}
