import { constants, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createSecureContext, TLSSocket } from 'node:tls';
import { fingerprintOf, type TlsIdentity, type Upgrade } from '../../../internal/rpc/index.ts';

/**
 * The server of plain mutual TLS with the defaults of Node. Attested TLS is compared with this server and not with
 * our own mTLS server (`tlsServerUpgrade`). Improvements of our own server, such as its smaller receive buffer, would
 * change the reference.
 */
export function plainServerUpgrade({ certPem, keyPem }: TlsIdentity): Upgrade<string> {
  const secureContext = createSecureContext({
    cert: certPem,
    key: keyPem.reveal(),
    minVersion: 'TLSv1.3',
    maxVersion: 'TLSv1.3',
    secureOptions: constants.SSL_OP_NO_TICKET,
  });
  return async (tcp, signal) => {
    const socket = new TLSSocket(tcp, {
      isServer: true,
      secureContext,
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    });
    await once(socket, 'secure', { signal });
    // `tls.Server` of Node also does this after the handshake; a bare TLSSocket would stay in the state "connecting".
    Object.assign(socket, { secureConnecting: false });
    return { socket, peer: fingerprintOf(certificateOf(socket)) };
  };
}

function certificateOf(socket: TLSSocket): X509Certificate {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) throw new Error('the client showed no certificate');
  return certificate;
}
