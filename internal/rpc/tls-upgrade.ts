import { constants, createHash, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { TimeoutError, withTimeout } from '../cleanup/index.ts';
import { formatDuration, type Clock } from '../clock/index.ts';
import type { Secret } from '../secret/index.ts';
import { RpcError } from './errors.ts';
import type { Upgrade, Upgraded } from './upgrade.ts';

const HANDSHAKE_MS = 5_000;
const ALPN = 'h2';

/** A certificate chain and its private key, PEM. */
export interface TlsIdentity {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
}

/**
 * Verifies the certificate of a peer that has proved to hold its key. Must check chain, dates and names itself: TLS is
 * configured to accept any certificate.
 * @returns the identity of the peer
 */
export type AcceptPeer<P> = (certificate: X509Certificate) => P;

/** The credentials that one end of a TLS connection shows, and the peers that it accepts. */
export interface TlsUpgradeOptions<P> {
  readonly identity: TlsIdentity;
  readonly accept: AcceptPeer<P>;
  /** Limits how long a handshake may take. */
  readonly clock: Clock;
}

/** The server side of mutual TLS 1.3 without session resumption. */
export function tlsServerUpgrade<P>(options: TlsUpgradeOptions<P>): Upgrade<P> {
  const secureContext = tls13Context(options.identity);
  return async (socket, signal) => {
    await firstBytes(socket, options.clock, signal);
    return handshake(socket, signal, options, () => {
      const secured = new TLSSocket(socket, {
        isServer: true,
        secureContext,
        requestCert: true,
        rejectUnauthorized: false,
        ALPNCallback: chosenProtocol,
      });
      return { secured, ready: 'secure' };
    });
  };
}

/**
 * Chooses the ALPN protocol; undefined sends the TLS alert `no_application_protocol`. A function, because
 * Node would keep a copy of a list for each socket.
 */
function chosenProtocol({ protocols }: { readonly protocols: readonly string[] }): string | undefined {
  return protocols.find((protocol) => protocol === ALPN);
}

/** The client side of mutual TLS 1.3 without session resumption. */
export function tlsClientUpgrade<P>(options: TlsUpgradeOptions<P>): Upgrade<P> {
  const secureContext = tls13Context(options.identity);
  return (socket, signal) =>
    handshake(socket, signal, options, () => ({
      secured: connect({ socket, secureContext, rejectUnauthorized: false, ALPNProtocols: [ALPN] }),
      ready: 'secureConnect',
    }));
}

/** SHA-256 of a certificate's public key (SPKI) in the form that people compare: "sha256:HEX". */
export function fingerprintOf(certificate: X509Certificate): string {
  return `sha256:${createHash('sha256')
    .update(certificate.publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')}`;
}

/**
 * TLS 1.3 with this certificate. Node sends session tickets although no session is resumed. Nobody has the keys of
 * these tickets, so they are useless, and attested TLS also refuses a resumed session.
 */
export function tls13Context(identity: TlsIdentity): SecureContext {
  return createSecureContext({
    cert: identity.certPem,
    key: identity.keyPem.reveal(),
    minVersion: 'TLSv1.3',
    maxVersion: 'TLSv1.3',
    secureOptions: constants.SSL_OP_NO_TICKET,
  });
}

/**
 * Waits for the first bytes of the client before the server begins TLS, so that a silent client costs only
 * a socket. This also keeps the receive buffer small: when TLS itself waits for data, Node allocates 64 KiB
 * per connection.
 */
async function firstBytes(socket: Socket, clock: Clock, signal: AbortSignal): Promise<void> {
  const options = { what: 'TLS handshake', ms: HANDSHAKE_MS, clock, signal };
  try {
    if (socket.readableLength === 0)
      await withTimeout(options, (child) => once(socket, 'readable', { signal: child }));
  } catch (error) {
    signal.throwIfAborted();
    const isLate = error instanceof TimeoutError;
    throw new RpcError(isLate ? 'rpc-timeout' : 'rpc-unreachable', 'TLS handshake', {
      cause: error,
    });
  }
  // The end of a stream emits 'readable' too.
  if (socket.readableLength === 0)
    throw new RpcError('rpc-unreachable', 'TLS handshake: the peer closed the connection');
}

function handshake<P>(
  socket: Socket,
  signal: AbortSignal,
  { accept, clock }: TlsUpgradeOptions<P>,
  start: () => { readonly secured: TLSSocket; readonly ready: 'secure' | 'secureConnect' },
): Promise<Upgraded<P>> {
  return new Promise((resolve, reject) => {
    const { secured, ready } = start();
    const settled = new AbortController();
    const settle = (finish: () => void): void => {
      settled.abort();
      signal.removeEventListener('abort', onAbort);
      socket.off('close', onClose);
      secured.off('error', onError).off('close', onClose);
      finish();
    };
    const fail = (error: unknown): void =>
      settle(() => {
        secured.on('error', () => undefined); // destroying may emit another error
        secured.destroy();
        socket.destroy();
        reject(error);
      });
    const onAbort = (): void => fail(signal.reason);
    const onError = (error: Error): void => fail(handshakeError(error));
    const onClose = (): void =>
      fail(new RpcError('rpc-unreachable', 'TLS handshake: the peer closed the connection'));
    void clock.sleep(HANDSHAKE_MS, settled.signal).then(
      () =>
        fail(new RpcError('rpc-timeout', `TLS handshake: timed out after ${formatDuration(HANDSHAKE_MS)}`)),
      () => undefined,
    );
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('close', onClose);
    secured.once('error', onError).once('close', onClose);
    secured.once(ready, () => {
      try {
        const peer = accept(peerCertificate(secured));
        setConnected(secured);
        settle(() => resolve({ socket: secured, peer }));
      } catch (error) {
        fail(error);
      }
    });
    if (signal.aborted) onAbort();
  });
}

/**
 * A server-side TLSSocket created outside `tls.Server` keeps `secureConnecting` true, and http2 would wait for an event
 * that only clients emit.
 */
export function setConnected(secured: TLSSocket): void {
  Object.assign(secured, { secureConnecting: false });
}

function peerCertificate(secured: TLSSocket): X509Certificate {
  if (secured.isSessionReused())
    throw new RpcError('rpc-handshake', 'TLS handshake: the peer resumed an old session');
  if (secured.alpnProtocol !== ALPN)
    throw new RpcError('rpc-handshake', 'TLS handshake: the peer speaks another protocol');
  const certificate = secured.getPeerX509Certificate();
  if (certificate === undefined)
    throw new RpcError('rpc-handshake', 'TLS handshake: the peer showed no certificate');
  return certificate;
}

/** TLS alerts mean that the peer refused this end; other errors come from the network. */
function handshakeError(error: Error): RpcError {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const refused = code.startsWith('ERR_SSL_');
  return new RpcError(refused ? 'rpc-handshake' : 'rpc-unreachable', 'TLS handshake', {
    cause: error,
  });
}
