import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { connect, TLSSocket } from 'node:tls';
import type { Role } from './binding.ts';
import { AtlsError, type AtlsErrorCode } from './errors.ts';
import type { TlsKeys } from './tls-keys.ts';
import { p256SpkiOf } from './spki.ts';
import { ALPN_ID } from './wire.ts';

/** A TLS 1.3 connection whose other end holds the key of `peerSpki`, and nothing more is known of it. */
export interface TlsConnection {
  readonly socket: TLSSocket;
  readonly peerCertificate: X509Certificate;
  readonly peerSpki: Uint8Array;
}

/** TLS as aTLS/1 wants it: 1.3, our ALPN id, both certificates, no resumption. Rejects with `atls-tls-…`. */
export async function establishTls(
  role: Role,
  tcp: Socket,
  keys: TlsKeys,
  signal: AbortSignal,
): Promise<TlsConnection> {
  if (role === 'server') await firstBytes(tcp, signal);
  const socket = role === 'server' ? serverSocket(tcp, keys) : clientSocket(tcp, keys);
  // Stays for the socket's life: an error between two owners must not end the process. 'close' follows it.
  socket.on('error', IGNORE);
  try {
    await until(socket, role === 'server' ? 'secure' : 'secureConnect', signal);
    // Made outside `tls.Server`, it would say so for ever, and http2 would wait for an event that never comes.
    if (role === 'server') Object.assign(socket, { secureConnecting: false });
    return checked(socket, keys);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

const IGNORE = (): void => undefined;

/**
 * A server's TLS begins when its client has spoken. A mute stranger costs a socket and no TLS; and Node's TLS keeps a
 * receive buffer for as long as the connection lives: of 64 KiB when it reads first, of what is there when it begins otherwise.
 */
async function firstBytes(tcp: Socket, signal: AbortSignal): Promise<void> {
  if (tcp.readableLength > 0) return;
  if (tcp.destroyed || tcp.readableEnded) throw truncated();
  await until(tcp, 'readable', signal);
  if (tcp.readableLength === 0) throw truncated(); // the end of a stream is announced so too
}

function serverSocket(tcp: Socket, keys: TlsKeys): TLSSocket {
  return new TLSSocket(tcp, {
    isServer: true,
    secureContext: keys.secureContext,
    ALPNCallback: chosenProtocol,
    requestCert: true,
    rejectUnauthorized: true, // in OpenSSL's terms: fail without a certificate. Chains are nobody's business here.
  });
}

function clientSocket(tcp: Socket, keys: TlsKeys): TLSSocket {
  return connect({
    socket: tcp,
    secureContext: keys.secureContext,
    ALPNProtocols: ALPN_PROTOCOLS,
    rejectUnauthorized: false, // the evidence decides, not a certificate authority
  });
}

/**
 * RFC 7301 §3.1, as a DataView: of a list of strings Node keeps a piece of its 64 KiB buffer pool with each socket, and
 * with it all that was taken from that pool meanwhile: a kilobyte per idle connection.
 */
const ALPN_PROTOCOLS = new DataView(Uint8Array.of(ALPN_ID.length, ...Buffer.from(ALPN_ID, 'ascii')).buffer);

/** For servers: of any list Node would keep a copy with each socket. Undefined refuses with TLS's own alert. */
function chosenProtocol({ protocols }: { readonly protocols: readonly string[] }): string | undefined {
  return protocols.find((protocol) => protocol === ALPN_ID);
}

/** Waits for an event on the way to TLS. */
function until(socket: Socket, event: string, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onError = (error: Error): void => reject(tlsError(error));
  const onClose = (): void => reject(truncated());
  const onAbort = (): void => reject(signal.reason as Error);
  socket.once(event, resolve).once('error', onError).once('close', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  return promise.finally(() => {
    socket.off(event, resolve).off('error', onError).off('close', onClose);
    signal.removeEventListener('abort', onAbort);
  });
}

function truncated(): AtlsError {
  return new AtlsError('atls-truncated', 'securing: the peer closed the connection');
}

/** What TLS has agreed on is checked, whatever it was told to agree on. */
function checked(socket: TLSSocket, keys: TlsKeys): TlsConnection {
  if (socket.getProtocol() !== 'TLSv1.3') {
    throw new AtlsError(
      'atls-tls-version',
      `securing: the connection is ${socket.getProtocol()}, want TLSv1.3`,
    );
  }
  if (socket.alpnProtocol !== ALPN_ID) {
    throw new AtlsError('atls-tls-alpn', `securing: the peer speaks ${socket.alpnProtocol || 'no protocol'}`);
  }
  if (socket.isSessionReused()) throw new AtlsError('atls-tls-resumed', 'securing: the session was resumed');
  const peerCertificate = socket.getPeerX509Certificate();
  if (peerCertificate === undefined) {
    throw new AtlsError('atls-tls-certificate', 'securing: the peer showed no certificate');
  }
  const peerSpki = p256SpkiOf(peerCertificate.raw);
  if (Buffer.compare(peerSpki, keys.spki) === 0) {
    throw new AtlsError('atls-reflection', 'securing: the peer showed our own TLS key');
  }
  return { socket, peerCertificate, peerSpki };
}

/** OpenSSL's reasons, both for what we refused and for the alert that the peer refused us with. */
const CODE_OF_REASON: Readonly<Record<string, AtlsErrorCode>> = {
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'atls-tls-version',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'atls-tls-version',
  ERR_SSL_NO_APPLICATION_PROTOCOL: 'atls-tls-alpn',
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: 'atls-tls-alpn',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'atls-tls-certificate',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'atls-tls-certificate',
};

function tlsError(error: Error): AtlsError {
  const reason = (error as NodeJS.ErrnoException).code ?? '';
  const otherwise = reason.startsWith('ERR_SSL_') ? 'atls-tls-failed' : 'atls-connection';
  return new AtlsError(CODE_OF_REASON[reason] ?? otherwise, 'securing', { cause: error });
}
