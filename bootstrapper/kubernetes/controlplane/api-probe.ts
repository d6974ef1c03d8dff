import { connect } from 'node:net';
import { Agent, request, type RequestOptions } from 'node:https';
import type { Secret } from '../../../internal/secret/index.ts';

const PROBE_MS = 2_000;
const MAX_WORDS = 2000;

/** Asks the API server on this machine whether it is ready: resolves with its words, rejects with the reason. */
export type ApiProbe = (options: {
  readonly host: string;
  readonly port: number;
  readonly caPem: string;
  readonly signal: AbortSignal;
}) => Promise<void>;

/** `/readyz` needs no credentials (system:public-info-viewer); the server is checked against the cluster's own CA. */
export const probeReadyz: ApiProbe = async ({ host, port, caPem, signal }) => {
  refuseUnready('/readyz', await ask({ host, port, path: '/readyz', ca: caPem, signal }));
};

/** A part of the control plane of this machine, which is ready or is not. */
export interface HealthRequest {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /** Who signed for it; absent: it signed for itself when it started, and nobody else knows it. */
  readonly caPem?: string;
  readonly signal: AbortSignal;
}

/** Rejects with the reason while it is not. */
export type HealthProbe = (question: HealthRequest) => Promise<void>;

/** Asks over connections that stay: a handshake for each look would be most of what an idle control plane costs. */
export function createHealthProbe(): HealthProbe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return async ({ host, port, path, caPem, signal }) => {
    // Any program of this machine may answer where none has a name: nothing that is trusted follows from it.
    const trust = caPem === undefined ? { rejectUnauthorized: false } : { ca: caPem };
    refuseUnready(path, await ask({ host, port, path, agent, signal, ...trust }));
  };
}

/** Whether the API server at "host:port" has this node, asked as the node's own kubelet: rejects with the reason if not. */
export type NodeProbe = (options: {
  readonly endpoint: string;
  readonly nodeName: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: Secret<string>;
  readonly signal: AbortSignal;
}) => Promise<void>;

export const probeNode: NodeProbe = async ({ endpoint, nodeName, caPem, certPem, keyPem, signal }) => {
  const { hostname, port } = new URL(`https://${endpoint}`);
  const { status, words } = await ask({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 443 : Number(port),
    path: `/api/v1/nodes/${encodeURIComponent(nodeName)}`,
    ca: caPem,
    cert: certPem,
    key: keyPem.reveal(),
    signal,
  });
  if (status !== 200) throw new Error(`${endpoint} answers ${status}: ${words.slice(0, 200)}`);
};

interface Answer {
  readonly status: number;
  readonly words: string;
}

function refuseUnready(path: string, { status, words }: Answer): void {
  if (status === 200) return;
  const failed = words.split('\n').filter((line) => line.startsWith('[-]'));
  throw new Error(`${path.slice(1)} answers ${status}: ${failed.join(' ') || words.slice(0, 200)}`);
}

/** The beginning of an answer: a few words tell a probe enough. */
function ask(options: RequestOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ agent: false, ...options, timeout: PROBE_MS }, (response) => {
      let words = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (words = (words + chunk).slice(0, MAX_WORDS)));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, words }));
      response.on('error', reject);
    });
    asked.once('timeout', () => asked.destroy(new Error(`no answer within ${PROBE_MS} ms`)));
    asked.once('error', reject);
    asked.end();
  });
}

/** Whether somebody takes connections there. */
export function isListening(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_MS });
    const answer = (isThere: boolean) => (): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', answer(true));
    // Who takes a connection so slowly is still there; only a refusal says that nobody is.
    socket.once('timeout', answer(true));
    socket.once('error', answer(false));
  });
}
