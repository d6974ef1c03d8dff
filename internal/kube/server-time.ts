import { X509Certificate } from 'node:crypto';
import { request } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { TimeoutError, withTimeout } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import { KubeError } from './client/index.ts';

const TIMEOUT_MS = 5_000;

/** An API server, and the CAs that sign its certificate, as one or several PEM blocks. */
interface TimeServer {
  /** "https://host:port". */
  readonly server: string;
  readonly caPem: string;
}

/**
 * How far the clock of an API server is ahead of `clock`, in ms, by the `Date` of a response; accurate to a second.
 * Sends no credentials. The certificate must be signed by the CA of the cluster. Its dates are not checked, because a
 * wrong clock makes valid dates look invalid, and this function exists to find a wrong clock.
 * @throws KubeError `kube-unreachable`, `kube-other-authority`, `kube-failed`
 */
export async function readServerTime(
  { server, caPem }: TimeServer,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<number> {
  const what = `GET ${server}/readyz`;
  try {
    return await withTimeout({ what, ms: TIMEOUT_MS, clock, signal }, async (child) => {
      const sentMs = clock.nowMs();
      const date = await dateOf({ server, caPem }, child);
      const serverMs = Date.parse(date);
      if (Number.isNaN(serverMs)) throw new KubeError('kube-failed', `${what}: response has no date`);
      // `Date` has whole seconds, cut off: on average half a second has passed.
      return Math.round(serverMs + 500 - (sentMs + clock.nowMs()) / 2);
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TimeoutError) throw new KubeError('kube-unreachable', error.message);
    throw error instanceof KubeError ? error : new KubeError('kube-unreachable', what, { cause: error });
  }
}

function dateOf({ server, caPem }: TimeServer, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request(
      new URL('/readyz', server),
      { agent: false, signal, rejectUnauthorized: false },
      (response) => {
        response.on('error', reject);
        response.resume();
        resolve(response.headers.date ?? '');
      },
    );
    call.once('error', reject);
    call.once('socket', (socket) =>
      socket.once('secureConnect', () => {
        if (!isSignedBy(caPem, (socket as TLSSocket).getPeerX509Certificate()))
          call.destroy(
            new KubeError('kube-other-authority', `GET ${server}/readyz: certificate of another CA`),
          );
      }),
    );
    call.end();
  });
}

function isSignedBy(caPem: string, certificate: X509Certificate | undefined): boolean {
  const cas = caPem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return cas.some((pem) => {
    const authority = new X509Certificate(pem);
    return certificate?.checkIssued(authority) === true && certificate.verify(authority.publicKey);
  });
}
