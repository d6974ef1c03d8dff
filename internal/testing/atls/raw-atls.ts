import { createHash, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createSecureContext, TLSSocket, type SecureVersion } from 'node:tls';
import type { TestIdentity } from './identity.ts';

export interface RawAtlsOptions {
  readonly role: 'client' | 'server';
  readonly identity?: TestIdentity;
  /** ALPN protocols; default: ["atls-h2/1"]. An empty list offers none. */
  readonly alpn?: readonly string[];
  readonly maxVersion?: SecureVersion;
  /** A TLS session to resume. */
  readonly session?: Buffer;
}

export interface RawFrame {
  readonly type: number;
  readonly body: Buffer;
  /** Header and body. */
  readonly bytes: Buffer;
}

/**
 * One end of aTLS/1 that sends whatever a test requests, in any order and without limits. Written from
 * docs/atls.md and not from internal/atls, so that both cannot contain the same mistake.
 */
export class RawAtls implements Disposable {
  readonly tls: TLSSocket;
  readonly #role: 'client' | 'server';
  #received = Buffer.alloc(0);
  #ended = false;
  #spki: { readonly own: Buffer; readonly peer: Buffer } | undefined;

  private constructor(tls: TLSSocket, role: 'client' | 'server') {
    this.tls = tls;
    this.#role = role;
    tls.on('error', () => undefined);
    tls.on('close', () => (this.#ended = true)).on('end', () => (this.#ended = true));
  }

  /** Completes TLS; rejects with the TLS error when the other end refuses the handshake. */
  static async open(tcp: Socket, options: RawAtlsOptions): Promise<RawAtls> {
    const { role, identity, alpn = ['atls-h2/1'], maxVersion = 'TLSv1.3', session } = options;
    const secureContext = createSecureContext({
      ...(identity === undefined ? {} : { cert: identity.certPem, key: identity.keyPem }),
      minVersion: 'TLSv1.2',
      maxVersion,
    });
    const common = { secureContext, ...(alpn.length === 0 ? {} : { ALPNProtocols: [...alpn] }) };
    const tls =
      role === 'server'
        ? new TLSSocket(tcp, { ...common, isServer: true, requestCert: true, rejectUnauthorized: false })
        : connect({
            socket: tcp,
            ...common,
            rejectUnauthorized: false,
            ...(session === undefined ? {} : { session }),
          });
    const raw = new RawAtls(tls, role);
    await Promise.race([
      once(tls, role === 'server' ? 'secure' : 'secureConnect'),
      once(tls, 'close').then(() => Promise.reject(new Error('closed during TLS'))),
    ]);
    tls.on('data', (chunk: Buffer) => (raw.#received = Buffer.concat([raw.#received, chunk])));
    return raw;
  }

  [Symbol.dispose](): void {
    this.tls.destroy();
  }

  send(...parts: readonly Uint8Array[]): void {
    this.tls.write(Buffer.concat(parts));
  }

  /** The next frame; undefined when the other end closed the connection without one. */
  async receive(): Promise<RawFrame | undefined> {
    for (;;) {
      const sizeBytes = this.#received.length < 6 ? Infinity : 6 + this.#received.readUInt32BE(2);
      if (this.#received.length >= sizeBytes) {
        const bytes = this.#received.subarray(0, sizeBytes);
        this.#received = this.#received.subarray(sizeBytes);
        return { type: bytes[0]!, body: bytes.subarray(6), bytes };
      }
      if (this.#ended) return undefined;
      await Promise.race([once(this.tls, 'data'), once(this.tls, 'close'), once(this.tls, 'end')]);
    }
  }

  /**
   * Reads to the end and returns how the other end closed the connection: the code of its alert, or
   * "closed".
   */
  async farewell(): Promise<number | 'closed'> {
    for (;;) {
      const frame = await this.receive();
      if (frame === undefined) return 'closed';
      if (frame.type === 15) return frame.body[0]!;
    }
  }

  /** Forwards all received and all future bytes to `other`. */
  forwardTo(other: RawAtls): void {
    if (this.#received.length > 0) other.tls.write(this.#received);
    this.#received = Buffer.alloc(0);
    this.tls.removeAllListeners('data').pipe(other.tls);
  }

  /** Read only once: a client that asks Node for the peer's certificate a second time gets nothing. */
  #keys(): { readonly own: Buffer; readonly peer: Buffer } {
    const { tls } = this;
    this.#spki ??= { own: spkiOf(tls.getX509Certificate()), peer: spkiOf(tls.getPeerX509Certificate()) };
    return this.#spki;
  }

  /** The binding that evidence of `role` must contain in this session. */
  binding(
    role: 'client' | 'server',
    context: string,
    clientHello: Uint8Array,
    serverHello: Uint8Array,
  ): Buffer {
    const transcript = sha256(Buffer.concat([clientHello, serverHello]));
    const ekm = this.tls.exportKeyingMaterial(32, 'EXPERIMENTAL-aTLS/1 attestation binder', transcript);
    const { own, peer } = this.#keys();
    const [server, client] = this.#role === 'server' ? [own, peer] : [peer, own];
    return createHash('sha512')
      .update(`aTLS/1 ${role} evidence\0`)
      .update(sha256(Buffer.from(context)))
      .update(ekm)
      .update(transcript)
      .update(sha256(server))
      .update(sha256(client))
      .digest();
  }
}

/** A frame with any type, body and version. */
export function rawFrame(type: number, body: Uint8Array, version = 1): Buffer {
  const header = Buffer.from([type, version, 0, 0, 0, 0]);
  header.writeUInt32BE(body.length, 2);
  return Buffer.concat([header, body]);
}

export function rawHello(formats: readonly number[], nonce: Uint8Array): Buffer {
  const list = Buffer.from(formats.flatMap((format) => [format >> 8, format & 0xff]));
  return rawFrame(1, Buffer.concat([Buffer.from([0, formats.length]), list, nonce]));
}

export function rawEvidence(format: number, document: Uint8Array): Buffer {
  return rawFrame(2, Buffer.concat([Buffer.from([format >> 8, format & 0xff]), document]));
}

function spkiOf(certificate: X509Certificate | undefined): Buffer {
  if (certificate === undefined) throw new Error('no certificate');
  return certificate.publicKey.export({ type: 'spki', format: 'der' });
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}
