import { constants, type X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createSecureContext, TLSSocket } from 'node:tls';
import { fingerprintOf, type TlsIdentity, type Upgrade } from '../../../internal/rpc/index.ts';

/**
 * The server's end of mutual TLS as Node brings it and as anybody would write it: what attested TLS is measured against.
 * Ours (`tlsServerUpgrade`) keeps a smaller receive buffer, and would be a yardstick that shrinks with every improvement.
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
    Object.assign(socket, { secureConnecting: false }); // made outside `tls.Server` it would say so for ever
    return { socket, peer: fingerprintOf(certificateOf(socket)) };
  };
}

function certificateOf(socket: TLSSocket): X509Certificate {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) throw new Error('the client showed no certificate');
  return certificate;
}
