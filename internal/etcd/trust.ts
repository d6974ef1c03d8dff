import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { RpcError, type AcceptPeer } from '../rpc/index.ts';

const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const CLOCK_TOLERANCE_MS = 5 * 60 * 1000;

export interface EtcdTrust {
  /** The CA that signs etcd's server certificates; PEM. While it is replaced, both, one after the other. */
  readonly serverCaPem: string;
  /** "host:port" as it is dialled. */
  readonly endpoint: string;
  readonly nowMs: () => number;
}

/** Accepts a server certificate that etcd's own CA signed for the host we dialled. */
export function acceptEtcdServer(trust: EtcdTrust): AcceptPeer<string> {
  const cas = authoritiesIn(trust.serverCaPem);
  const host = hostOf(trust.endpoint);
  return (certificate) => {
    const refusal = whyNot(certificate, { cas, host, nowMs: trust.nowMs() });
    if (refusal !== undefined) {
      throw new RpcError('rpc-handshake', `verifying etcd at ${trust.endpoint}: its certificate ${refusal}`);
    }
    return host;
  };
}

function whyNot(
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

/** At least one: to believe nobody is a mistake and no rule. */
function authoritiesIn(pem: string): readonly X509Certificate[] {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (found.length === 0) throw new TypeError('no certificate of an authority');
  return found.map((each) => new X509Certificate(each));
}

/**
 * "192.0.2.1:2379" → "192.0.2.1", "[2001:db8::1]:2379" → "2001:db8::1". What a Unix socket leads to is the member of this
 * machine, whose certificate names it so.
 */
export function hostOf(endpoint: string): string {
  if (endpoint.startsWith('unix:')) return 'localhost';
  return endpoint.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
