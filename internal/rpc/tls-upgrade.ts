import { createHash, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import { connect, createSecureContext, TLSSocket } from 'node:tls';
import { TimeoutError, withTimeout } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import type { Secret } from '../secret/index.ts';
import { RpcError } from './errors.ts';
import type { Upgrade, Upgraded } from './upgrade.ts';

const HANDSHAKE_MS = 5_000;
const ALPN = 'h2';

export interface TlsIdentity {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
}

/**
 * Decides about the peer's certificate, whose key it has proved to hold. Answers who that is, or throws.
 * Chain, dates and names are the callee's to check: TLS itself trusts nobody here.
 */
export type AcceptPeer<P> = (certificate: X509Certificate) => P;

export interface TlsUpgradeOptions<P> {
  readonly identity: TlsIdentity;
  readonly accept: AcceptPeer<P>;
  /** Limits how long a handshake may take. */
  readonly clock: Clock;
}

/** TLS 1.3, both ends with a certificate, no resumption: the server's side. */
export function tlsServerUpgrade<P>(options: TlsUpgradeOptions<P>): Upgrade<P> {
  const secureContext = contextOf(options.identity);
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

/** A function for all sockets: of a list Node keeps a copy with each. Undefined refuses with TLS's own alert. */
function chosenProtocol({ protocols }: { readonly protocols: readonly string[] }): string | undefined {
  return protocols.find((protocol) => protocol === ALPN);
}

/** The client's side. */
export function tlsClientUpgrade<P>(options: TlsUpgradeOptions<P>): Upgrade<P> {
  const secureContext = contextOf(options.identity);
  return (socket, signal) =>
    handshake(socket, signal, options, () => ({
      secured: connect({ socket, secureContext, rejectUnauthorized: false, ALPNProtocols: [ALPN] }),
      ready: 'secureConnect',
    }));
}

/** SHA-256 of a certificate's public key (SPKI), as people compare it: "sha256:HEX". */
export function fingerprintOf(certificate: X509Certificate): string {
  return `sha256:${createHash('sha256')
    .update(certificate.publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')}`;
}

function contextOf(identity: TlsIdentity): ReturnType<typeof createSecureContext> {
  return createSecureContext({
    cert: identity.certPem,
    key: identity.keyPem.reveal(),
    minVersion: 'TLSv1.3',
    maxVersion: 'TLSv1.3',
    secureOptions: constants.SSL_OP_NO_TICKET,
  });
}

/**
 * A server's TLS begins when its client has spoken: a mute stranger costs a socket and no TLS. And Node's TLS keeps a receive
 * buffer for as long as the connection lives, of 64 KiB when it reads first, of what is there when it begins otherwise.
 */
async function firstBytes(socket: Socket, clock: Clock, signal: AbortSignal): Promise<void> {
  const options = { what: 'securing the connection', ms: HANDSHAKE_MS, clock, signal };
  try {
    if (socket.readableLength === 0)
      await withTimeout(options, (child) => once(socket, 'readable', { signal: child }));
  } catch (error) {
    signal.throwIfAborted();
    const isLate = error instanceof TimeoutError;
    throw new RpcError(isLate ? 'rpc-timeout' : 'rpc-unreachable', 'securing the connection', {
      cause: error,
    });
  }
  // The end of a stream is announced in the same way.
  if (socket.readableLength === 0)
    throw new RpcError('rpc-unreachable', 'securing the connection: the peer closed it');
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
        secured.on('error', () => undefined); // destroying may report once more
        secured.destroy();
        socket.destroy();
        reject(error);
      });
    const onAbort = (): void => fail(signal.reason);
    const onError = (error: Error): void => fail(handshakeError(error));
    const onClose = (): void =>
      fail(new RpcError('rpc-unreachable', 'securing the connection: the peer closed it'));
    void clock.sleep(HANDSHAKE_MS, settled.signal).then(
      () =>
        fail(new RpcError('rpc-timeout', `securing the connection: no handshake within ${HANDSHAKE_MS} ms`)),
      () => undefined,
    );
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('close', onClose);
    secured.once('error', onError).once('close', onClose);
    secured.once(ready, () => {
      try {
        const peer = accept(peerCertificate(secured));
        markConnected(secured);
        settle(() => resolve({ socket: secured, peer }));
      } catch (error) {
        fail(error);
      }
    });
    if (signal.aborted) onAbort();
  });
}

/**
 * A server-side TLSSocket made outside `tls.Server` says `secureConnecting` for ever, and http2 would wait for an event
 * that only clients emit. Public for every upgrade that hands a socket to the server.
 */
export function markConnected(secured: TLSSocket): void {
  Object.assign(secured, { secureConnecting: false });
}

function peerCertificate(secured: TLSSocket): X509Certificate {
  if (secured.isSessionReused())
    throw new RpcError('rpc-handshake', 'securing the connection: the peer resumed an old session');
  if (secured.alpnProtocol !== ALPN)
    throw new RpcError('rpc-handshake', 'securing the connection: the peer speaks another protocol');
  const certificate = secured.getPeerX509Certificate();
  if (certificate === undefined)
    throw new RpcError('rpc-handshake', 'securing the connection: the peer showed no certificate');
  return certificate;
}

/** OpenSSL alerts mean that the peer refused us; everything else is the network's. */
function handshakeError(error: Error): RpcError {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const refused = code.startsWith('ERR_SSL_');
  return new RpcError(refused ? 'rpc-handshake' : 'rpc-unreachable', 'securing the connection', {
    cause: error,
  });
}
