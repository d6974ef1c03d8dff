import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { connect, TLSSocket } from 'node:tls';
import type { Role } from './binding.ts';
import { AtlsError, type AtlsErrorCode } from './errors.ts';
import type { TlsKeys } from './tls-keys.ts';
import { p256SpkiOf } from './spki.ts';
import { ALPN_ID } from './wire.ts';

/** A TLS 1.3 connection. The peer has proved that it holds the key of `peerSpki`, and nothing else. */
export interface TlsConnection {
  readonly socket: TLSSocket;
  readonly peerCertificate: X509Certificate;
  readonly peerSpki: Uint8Array;
}

/**
 * Establishes TLS as aTLS/1 requires it: version 1.3, its ALPN id, certificates of both ends, no resumption. Rejects with
 * AtlsError `atls-tls-…`.
 */
export async function establishTls(
  role: Role,
  tcp: Socket,
  keys: TlsKeys,
  signal: AbortSignal,
): Promise<TlsConnection> {
  if (role === 'server') await firstBytes(tcp, signal);
  const socket = role === 'server' ? serverSocket(tcp, keys) : clientSocket(tcp, keys);
  // Stays for the lifetime of the socket: an error while no other listener is attached must not end the process.
  socket.on('error', IGNORE);
  try {
    await until(socket, role === 'server' ? 'secure' : 'secureConnect', signal);
    // Outside `tls.Server`, Node never resets this flag, and http2 would wait for an event that is never emitted.
    if (role === 'server') Object.assign(socket, { secureConnecting: false });
    return checked(socket, keys);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

const IGNORE = (): void => undefined;

/**
 * Waits for the client's first bytes before the server starts TLS. A silent client then costs a socket but no TLS. Node also
 * allocates a smaller receive buffer for the connection: as large as the first bytes instead of 64 KiB.
 */
async function firstBytes(tcp: Socket, signal: AbortSignal): Promise<void> {
  if (tcp.readableLength > 0) return;
  if (tcp.destroyed || tcp.readableEnded) throw truncated();
  await until(tcp, 'readable', signal);
  if (tcp.readableLength === 0) throw truncated(); // 'readable' also announces the end of the stream
}

function serverSocket(tcp: Socket, keys: TlsKeys): TLSSocket {
  return new TLSSocket(tcp, {
    isServer: true,
    secureContext: keys.secureContext,
    ALPNCallback: chosenProtocol,
    requestCert: true,
    rejectUnauthorized: true, // OpenSSL then fails without a client certificate; chains are not verified here
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
 * The protocol list of RFC 7301 §3.1. A DataView, because Node encodes a list of strings in its 64 KiB buffer pool, and each
 * socket would keep part of the pool alive: a kilobyte per idle connection.
 */
const ALPN_PROTOCOLS = new DataView(Uint8Array.of(ALPN_ID.length, ...Buffer.from(ALPN_ID, 'ascii')).buffer);

/**
 * A callback and not a list, because Node would keep a copy of the list with each socket. If the callback returns
 * undefined, Node refuses the client with a TLS alert.
 */
function chosenProtocol({ protocols }: { readonly protocols: readonly string[] }): string | undefined {
  return protocols.find((protocol) => protocol === ALPN_ID);
}

/** Waits for an event of the TLS handshake. */
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
  return new AtlsError('atls-truncated', 'TLS handshake failed: the peer closed the connection');
}

/** Checks the negotiated values, although the options of the connection allow no others. */
function checked(socket: TLSSocket, keys: TlsKeys): TlsConnection {
  if (socket.getProtocol() !== 'TLSv1.3') {
    throw new AtlsError(
      'atls-tls-version',
      `TLS handshake failed: version ${socket.getProtocol()}, TLSv1.3 required`,
    );
  }
  if (socket.alpnProtocol !== ALPN_ID) {
    throw new AtlsError(
      'atls-tls-alpn',
      `TLS handshake failed: the peer negotiated ${socket.alpnProtocol || 'no application protocol'}`,
    );
  }
  if (socket.isSessionReused())
    throw new AtlsError('atls-tls-resumed', 'TLS handshake failed: the peer resumed a session');
  const peerCertificate = socket.getPeerX509Certificate();
  if (peerCertificate === undefined) {
    throw new AtlsError('atls-tls-certificate', 'TLS handshake failed: the peer sent no certificate');
  }
  const peerSpki = p256SpkiOf(peerCertificate.raw);
  if (Buffer.compare(peerSpki, keys.spki) === 0) {
    throw new AtlsError('atls-reflection', 'TLS handshake failed: the peer sent the TLS key of this end');
  }
  return { socket, peerCertificate, peerSpki };
}

/** OpenSSL's error codes: for a refusal by this end, and for the alert of a peer that refused. */
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
  return new AtlsError(CODE_OF_REASON[reason] ?? otherwise, 'TLS handshake failed', { cause: error });
}
