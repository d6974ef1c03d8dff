import { request } from 'node:https';
import type { TestCredential } from './test-credentials.ts';

const KNOCK_MS = 5_000;
const MAX_BODY = 2_000;

/** What came of one attempt to be let in. */
export type ProbeAnswer =
  /** TLS took the certificate, or did not ask for one; the program behind it answered. */
  | { readonly kind: 'status'; readonly status: number; readonly body: string }
  /** A curator answered with the code of an error. */
  | { readonly kind: 'code'; readonly code: string }
  /** The other end ended the handshake and said why, e.g. "UNKNOWN_CA" (RFC 8446 section 6). */
  | { readonly kind: 'alert'; readonly alert: string }
  /** Nothing that proves anything. */
  | { readonly kind: 'failed'; readonly why: string };

/** An HTTPS request with a paper, to a server that itself has to show a certificate of `serverCaPem`. */
export function probeHttps(
  at: { readonly host: string; readonly port: number; readonly path: string; readonly serverCaPem: string },
  paper: TestCredential,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const { serverCaPem: ca, ...to } = at;
  return new Promise((resolve) => {
    const asked = request(
      { ...to, ca, ...shown(paper), timeout: KNOCK_MS, signal, agent: false },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body = (body + chunk).slice(0, MAX_BODY)));
        response.on('end', () => resolve({ kind: 'status', status: response.statusCode ?? 0, body }));
        response.on('error', (error) => resolve(failureOf(error)));
      },
    );
    asked.once('timeout', () => asked.destroy(new Error(`no answer within ${KNOCK_MS} ms`)));
    asked.once('error', (error) => resolve(failureOf(error)));
    asked.end();
  });
}

function shown(paper: TestCredential): object {
  if ('token' in paper) return { headers: { authorization: `Bearer ${paper.token.reveal()}` } };
  const { certPem, keyPem, asUser } = paper;
  const headers = asUser === undefined ? {} : { headers: { 'x-remote-user': asUser } };
  return { cert: certPem, key: keyPem.reveal(), ...headers };
}

/** Node names an alert of the other end ERR_SSL_TLSV1_ALERT_…, ERR_SSL_TLSV13_ALERT_… or ERR_SSL_SSLV3_ALERT_…. */
function failureOf(error: Error & { readonly code?: string }): ProbeAnswer {
  const [, alert] = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3)_ALERT_([A-Z_]+)$/.exec(error.code ?? '') ?? [];
  return alert === undefined ? { kind: 'failed', why: error.message } : { kind: 'alert', alert };
}
