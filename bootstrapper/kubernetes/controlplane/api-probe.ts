import { formatDuration } from '../../../internal/clock/index.ts';
import { Agent, request, type RequestOptions } from 'node:https';
import { splitEndpoint } from '../../../internal/endpoint/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';

const TIMEOUT_MS = 2_000;
const MAX_BODY_CHARS = 2_000;
const MAX_REASON_CHARS = 200;

/** Resolves when the API server at this address is ready; rejects with the reason why it is not. */
export type ApiProbe = (options: {
  readonly host: string;
  readonly port: number;
  /** The CA that must have issued the API server's certificate. */
  readonly caPem: string;
  readonly signal: AbortSignal;
}) => Promise<void>;

/** Requests `/readyz`, which is readable without credentials (ClusterRole system:public-info-viewer). */
export const probeReadyz: ApiProbe = async ({ host, port, caPem, signal }) => {
  refuseUnready('/readyz', await getHttps({ host, port, path: '/readyz', ca: caPem, signal }));
};

/** A health endpoint of a control-plane component on this machine. */
export interface HealthRequest {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /**
   * The CA of the server's certificate. undefined if the component signs its own certificate at each start.
   */
  readonly caPem?: string;
  readonly signal: AbortSignal;
}

/** Resolves when the component is ready; rejects with the reason why it is not. */
export type HealthProbe = (request: HealthRequest) => Promise<void>;

/**
 * Probes components over connections that stay open. New TLS handshakes would need most of the CPU time of an
 * idle control plane.
 */
export function createHealthProbe(): HealthProbe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return async ({ host, port, path, caPem, signal }) => {
    // Without a CA, any local program could answer this probe. The agent therefore only reports the answer
    // and trusts nothing else to it.
    const trust = caPem === undefined ? { rejectUnauthorized: false } : { ca: caPem };
    refuseUnready(path, await getHttps({ host, port, path, agent, signal, ...trust }));
  };
}

/**
 * Resolves when the API server at "host:port" returns this node's Node object to the kubelet; rejects with
 * the reason.
 */
export type NodeProbe = (options: {
  readonly endpoint: string;
  readonly nodeName: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: Secret<string>;
  readonly signal: AbortSignal;
}) => Promise<void>;

/** Requests the Node object with the kubelet's client certificate. */
export const probeNode: NodeProbe = async ({ endpoint, nodeName, caPem, certPem, keyPem, signal }) => {
  const { status, body } = await getHttps({
    ...splitEndpoint(endpoint),
    path: `/api/v1/nodes/${encodeURIComponent(nodeName)}`,
    ca: caPem,
    cert: certPem,
    key: keyPem.reveal(),
    signal,
  });
  if (status !== 200) throw new Error(`${endpoint} answered ${status}: ${body.slice(0, MAX_REASON_CHARS)}`);
};

/** An HTTPS response. Its body is cut off. */
export interface HttpsResponse {
  readonly status: number;
  readonly body: string;
}

function refuseUnready(path: string, { status, body }: HttpsResponse): void {
  if (status === 200) return;
  const failed = body.split('\n').filter((line) => line.startsWith('[-]'));
  const reason = failed.join(' ') || body.slice(0, MAX_REASON_CHARS);
  throw new Error(`${path.slice(1)} answered ${status}: ${reason}`);
}

/**
 * Sends one GET request. Rejects if there is no response within `timeout` (default: 2 s).
 * @param maxBodyChars characters of the body to keep
 */
export function getHttps(options: RequestOptions, maxBodyChars = MAX_BODY_CHARS): Promise<HttpsResponse> {
  const { timeout = TIMEOUT_MS } = options;
  return new Promise((resolve, reject) => {
    const sent = request({ agent: false, ...options, timeout }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body = (body + chunk).slice(0, maxBodyChars)));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
      response.on('error', reject);
    });
    sent.once('timeout', () => sent.destroy(new Error(`no answer within ${formatDuration(timeout)}`)));
    sent.once('error', reject);
    sent.end();
  });
}
