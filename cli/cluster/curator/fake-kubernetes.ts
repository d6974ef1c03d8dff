import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { FilePort } from '../../../internal/file/index.ts';
import { renderKubeconfig } from '../../../internal/kube/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';

export interface FakeNodeObject {
  readonly metadata: { readonly annotations: Record<string, string | null> };
  readonly spec: {
    readonly unschedulable?: boolean | null;
    readonly taints?: readonly { readonly key: string; readonly effect: string }[];
  };
}

export const CONTROL_PLANE_TAINT = { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' };

export interface FakeKubernetesOptions {
  readonly address: string;
  readonly port: number;
  /**
   * Handles API requests that the fake node does not handle: returns the JSON of the response, or a `FakeResponse`. Returns
   * undefined to pass the request on to the fake node.
   */
  readonly answer: (request: FakeRequest) => unknown;
  /** Accept clients without a certificate, as API servers do before they authorize a request. */
  readonly acceptsAnonymous?: boolean;
  /** Lifetime of the certificates; default: one day. */
  readonly validDays?: number;
}

/** A response with another status than 200, or with a text that is not JSON. */
export class FakeResponse {
  readonly status: number;
  readonly text: string;

  constructor(status: number, text: string) {
    this.status = status;
    this.text = text;
  }
}

export interface FakeRequest {
  readonly method: string;
  readonly url: string;
  readonly body: unknown;
}

/**
 * A Kubernetes API with one node and no pods. It supports merge patches only. Its kubeconfig is at `path`.
 * Dispose it after the test.
 */
export async function createKubernetes(
  files: FilePort,
  path: string,
  node: FakeNodeObject,
  { address, port, answer, acceptsAnonymous = false, validDays = 1 }: FakeKubernetesOptions = {
    address: '127.0.0.1',
    port: 0,
    answer: () => undefined,
  },
) {
  const nowMs = Date.now();
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs });
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => nowMs });
  const issue = async (usage: 'server' | 'client') => {
    const keyPem = generateKeyPem();
    const names = usage === 'server' ? [{ type: 'ip', value: address } as const] : [];
    const leaf = { pubKeyDer: pubKeyDerOf(keyPem), usages: [usage] as const, names, validDays };
    return { keyPem, certPem: await signer.issue({ commonName: usage, ...leaf }) };
  };
  const state = { node, asked: 0, patches: 0 };
  const own = await issue('server');
  const server = createServer(
    {
      key: own.keyPem.reveal(),
      cert: own.certPem,
      ca: caPem,
      requestCert: true,
      rejectUnauthorized: !acceptsAnonymous,
    },
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const { method = '', url: asked = '' } = request;
        const body: unknown = text === '' ? undefined : JSON.parse(text);
        const own = answer({ method, url: asked, body });
        if (own instanceof Error) return response.destroy();
        if (own instanceof FakeResponse) {
          response.statusCode = own.status;
          return response.end(own.text);
        }
        if (own !== undefined) return response.end(JSON.stringify(own));
        if (request.method === 'PATCH') {
          state.node = patched(state.node, body as FakeNodeObject);
          state.patches++;
        }
        const { url = '' } = request;
        if (url === '/readyz') return response.end('ok');
        if (url.startsWith('/api/v1/pods?')) return response.end(JSON.stringify({ items: [] }));
        state.asked++;
        return response.end(JSON.stringify(withoutNulls(state.node)));
      });
    },
  );
  server.listen(port, address);
  await once(server, 'listening');
  const listening = (server.address() as AddressInfo).port;
  const access = { server: `https://${address}:${listening}`, caPem, ...(await issue('client')) };
  await files.writeAtomic(path, renderKubeconfig('prod', access));
  return {
    state,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function patched(node: FakeNodeObject, patch: FakeNodeObject): FakeNodeObject {
  return {
    metadata: { annotations: { ...node.metadata.annotations, ...patch.metadata.annotations } },
    spec: { ...node.spec, ...patch.spec },
  };
}

/** A merge patch deletes the members that it sets to null. */
function withoutNulls(node: FakeNodeObject): unknown {
  return JSON.parse(JSON.stringify(node, (_, value: unknown) => value ?? undefined));
}
