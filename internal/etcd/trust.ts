import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';
import { hostOf } from '../endpoint/index.ts';
import { RpcError, type AcceptPeer } from '../rpc/index.ts';

const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

/** Which server certificates an etcd client accepts. */
export interface EtcdTrust {
  /** PEM of the CA that signs etcd's server certificates. During a CA rotation, it contains both CAs. */
  readonly serverCaPem: string;
  /** The dialed "host:port". */
  readonly endpoint: string;
  readonly nowMs: () => number;
}

/** Accepts a server certificate that the CA of etcd signed for the dialed host. */
export function acceptEtcdServer(trust: EtcdTrust): AcceptPeer<string> {
  const cas = caCertificatesIn(trust.serverCaPem);
  // A Unix socket connects to this machine's own member, whose certificate contains the name "localhost".
  const host = trust.endpoint.startsWith('unix:') ? 'localhost' : hostOf(trust.endpoint);
  return (certificate) => {
    const refusal = reasonToRefuse(certificate, { cas, host, nowMs: trust.nowMs() });
    if (refusal !== undefined) {
      throw new RpcError('rpc-handshake', `verifying etcd at ${trust.endpoint}: its certificate ${refusal}`);
    }
    return host;
  };
}

function reasonToRefuse(
  certificate: X509Certificate,
  expected: { readonly cas: readonly X509Certificate[]; readonly host: string; readonly nowMs: number },
): string | undefined {
  if (!expected.cas.some((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey)))
    return "is not signed by etcd's CA";
  if (Date.parse(certificate.validFrom) > expected.nowMs + CLOCK_TOLERANCE_MS) return 'is not valid yet';
  if (Date.parse(certificate.validTo) < expected.nowMs - CLOCK_TOLERANCE_MS) return 'has expired';
  if (!(certificate.keyUsage as readonly string[] | undefined)?.includes(SERVER_AUTH))
    return 'is not for servers';
  const named =
    isIP(expected.host) === 0 ? certificate.checkHost(expected.host) : certificate.checkIP(expected.host);
  return named === undefined ? `is for ${certificate.subjectAltName ?? 'nobody'}` : undefined;
}

/** The certificates in a PEM text. @throws TypeError when there is none */
function caCertificatesIn(pem: string): readonly X509Certificate[] {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (found.length === 0) throw new TypeError('no CA certificate in PEM text');
  return found.map((each) => new X509Certificate(each));
}
