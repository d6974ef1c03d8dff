import { request, type Agent } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { agentFromKubeconfig } from '../../cluster/harness/api-counter.ts';

const ANSWER_MS = 60_000;
/** The endpoint of a lost node changes after about a minute: 10 s lease, 50 s grace period, 5 s between two looks. */
const EVENT_MS = 180_000;

/** An event of a watch: "ADDED", "MODIFIED" or "DELETED", and the object. */
export interface WatchEvent {
  readonly type: string;
  readonly object: KubernetesObject;
}

/** The parts of Kubernetes objects that the measurements read. */
export interface KubernetesObject {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
    readonly generation?: number;
  };
  readonly spec?: { readonly ports?: readonly { readonly nodePort?: number }[] };
  readonly status?: {
    readonly phase?: string;
    readonly observedGeneration?: number;
    readonly updatedReplicas?: number;
    readonly availableReplicas?: number;
    readonly replicas?: number;
  };
  /** null in a slice without endpoints. */
  readonly endpoints?: readonly { readonly conditions?: { readonly ready?: boolean } }[] | null;
}

/** A client of the API servers of one cluster that keeps its connections open, as controllers do. */
export class ApiClient implements Disposable {
  readonly #agent: Agent;

  private constructor(agent: Agent) {
    this.#agent = agent;
  }

  static async open(kubeconfigFile: string): Promise<ApiClient> {
    return new ApiClient(await agentFromKubeconfig(kubeconfigFile));
  }

  /** Calls the API server of a host and returns the whole body. Throws for every status but 2xx. */
  async call(host: string, method: string, path: string, body?: object): Promise<string> {
    const response = await this.#send(host, method, path, { body, limitMs: ANSWER_MS });
    let text = '';
    response.setEncoding('utf8');
    for await (const part of response as AsyncIterable<string>) text += part;
    const { statusCode = 0 } = response;
    if (statusCode < 200 || statusCode > 299)
      throw new Error(`${method} ${path}: ${statusCode} ${text.slice(0, 300)}`);
    return text;
  }

  async object(host: string, method: string, path: string, body?: object): Promise<KubernetesObject> {
    return JSON.parse(await this.call(host, method, path, body)) as KubernetesObject;
  }

  /** Opens a watch. The caller ends it by leaving the loop. */
  async *watch(host: string, path: string): AsyncGenerator<WatchEvent> {
    const response = await this.#send(host, 'GET', path, { limitMs: EVENT_MS });
    try {
      if (response.statusCode !== 200) throw new Error(`watching ${path}: ${response.statusCode ?? ''}`);
      response.setEncoding('utf8');
      let rest = '';
      for await (const part of response as AsyncIterable<string>) {
        const lines = (rest + part).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) yield JSON.parse(line) as WatchEvent;
      }
      throw new Error(`watching ${path}: the API server ended the watch`);
    } finally {
      response.destroy();
    }
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  /** @param options `limitMs`: the longest time without any data */
  #send(
    host: string,
    method: string,
    path: string,
    { body, limitMs }: { readonly body?: object | undefined; readonly limitMs: number },
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const kind = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
      let response: IncomingMessage | undefined;
      const sent = request(
        {
          ...{ host, port: PORTS.apiServer, method, path, agent: this.#agent, timeout: limitMs },
          headers: { 'content-type': kind, accept: 'application/json' },
        },
        (received) => {
          response = received;
          resolve(received);
        },
      );
      sent.once('timeout', () => {
        const late = new Error(`${method} https://${host}${path}: nothing received for ${limitMs / 1000} s`);
        // A request that is destroyed during its response makes that end with "aborted" only.
        (response ?? sent).destroy(late);
      });
      sent.once('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** Resolves with the first event that fits, or rejects when the watch ends. */
export async function firstEvent(
  events: AsyncGenerator<WatchEvent>,
  fits: (event: WatchEvent) => boolean,
): Promise<WatchEvent> {
  for (;;) {
    const next = await events.next();
    if (next.done === true) throw new Error('the watch has ended');
    if (fits(next.value)) return next.value;
  }
}
