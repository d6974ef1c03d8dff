import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { StoryCluster } from '../harness/story-cluster.ts';
import type { CredentialThief } from './stolen-credentials.ts';

const HOST = '127.0.0.1';

/**
 * A forged API server of an attacker with a copy of a control plane's disk. The copied CA for API servers issued its
 * certificate.
 */
export class FalseApiServer implements AsyncDisposable {
  readonly url: string;
  /** The requests that clients have sent. A client that does not trust the certificate sends no request. */
  readonly requests: readonly string[];
  readonly #server: Server;

  private constructor(url: string, requests: readonly string[], server: Server) {
    this.url = url;
    this.requests = requests;
    this.#server = server;
  }

  static async start(thief: CredentialThief): Promise<FalseApiServer> {
    const requests: string[] = [];
    const server = createServer(await thief.apiServerCertificate(HOST), ({ url = '' }, response) => {
      requests.push(url);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"items":[]}');
    });
    server.listen(0, HOST);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return new FalseApiServer(`https://${HOST}:${port}`, requests, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** The CAs with which the kubelet of a machine verifies API servers, PEM. */
export async function kubeletTrust(cluster: StoryCluster, machine: string): Promise<string> {
  const config = await cluster.run(machine, 'cat', '/etc/kubernetes/kubelet.conf');
  const [, data] = /certificate-authority-data"?: *"?([A-Za-z0-9+/=]+)/.exec(config) ?? [];
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8');
  const [, file = ''] = /certificate-authority"?: *"?([^"\s]+)/.exec(config) ?? [];
  return cluster.run(machine, 'cat', file);
}

/** "accepted", or the code of the error with which a client that trusts these CAs refuses the server. */
export function answerTo(caPem: string, url: string): Promise<string> {
  return new Promise((resolve) => {
    const asked = request(url, { ca: caPem, agent: false, timeout: 5_000 }, (response) => {
      response.resume();
      resolve('accepted');
    });
    asked.once('timeout', () => asked.destroy(new Error('no answer')));
    asked.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asked.end();
  });
}

/** Diverts the kubeconfig of a workspace to another API server. */
export async function divertKubeconfig(workspace: string, url: string): Promise<void> {
  const path = join(workspace, 'kubeconfig');
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replaceAll(/https:\/\/[^"\s]+/g, url), { mode: 0o600 });
}
