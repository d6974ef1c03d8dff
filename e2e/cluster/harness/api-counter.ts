import { Agent, request } from 'node:https';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';

const ANSWER_MS = 5_000;
const PAUSE_MS = 100;

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: { readonly 'certificate-authority-data': string } }];
  readonly users: readonly [
    { readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } },
  ];
}

interface ConfigMap {
  readonly metadata: { readonly resourceVersion: string };
  readonly data: { readonly count: string };
}

export interface ApiCounter extends AsyncDisposable {
  /** The highest count that an API server has acknowledged, and every read that returned a lower count. */
  seen(): { readonly acknowledged: number; readonly lost: readonly string[]; readonly refused: number };
  /** The count that the cluster stores now. */
  read(): Promise<number>;
}

/**
 * A Kubernetes client that increments a counter in a ConfigMap until it is disposed, through any API server
 * that responds. Each write names the version that it replaces, so an acknowledged count can only disappear
 * if the cluster loses it.
 */
export async function startApiCounter(kubeconfigFile: string, hosts: readonly string[]): Promise<ApiCounter> {
  const api = await connectToApi(kubeconfigFile, hosts);
  const path = '/api/v1/namespaces/default/configmaps';
  await api('GET', `${path}/counter`).catch(() =>
    api('POST', path, { metadata: { name: 'counter' }, data: { count: '0' } }),
  );
  const stop = new AbortController();
  let acknowledged = 0;
  let refused = 0;
  const lost: string[] = [];
  const step = async (): Promise<void> => {
    const found = (await api('GET', `${path}/counter`)) as ConfigMap;
    const count = Number(found.data.count);
    if (count < acknowledged) lost.push(`read ${count} after ${acknowledged} was acknowledged`);
    await api('PUT', `${path}/counter`, { ...found, data: { count: String(count + 1) } });
    acknowledged = Math.max(acknowledged, count + 1);
  };
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await step().catch(() => refused++);
      await delay(PAUSE_MS);
    }
  };
  const looping = loop();
  return {
    seen: () => ({ acknowledged, lost, refused }),
    read: async () => Number(((await api('GET', `${path}/counter`)) as ConfigMap).data.count),
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return looping;
    },
  };
}

type Api = (method: string, path: string, body?: object) => Promise<unknown>;

/** An agent whose connections use the client certificate of the kubeconfig. */
export async function agentFromKubeconfig(kubeconfigFile: string): Promise<Agent> {
  const { clusters, users } = parse(await readFile(kubeconfigFile, 'utf8')) as Kubeconfig;
  const decode = (text: string): string => Buffer.from(text, 'base64').toString('utf8');
  return new Agent({
    ca: decode(clusters[0].cluster['certificate-authority-data']),
    cert: decode(users[0].user['client-certificate-data']),
    key: decode(users[0].user['client-key-data']),
    keepAlive: true,
  });
}

/** Calls the API server of one host; after a failed call the next call goes to the next host. */
export async function connectToApi(kubeconfigFile: string, hosts: readonly string[]): Promise<Api> {
  const agent = await agentFromKubeconfig(kubeconfigFile);
  let attempts = 0;
  return async (method, path, body) => {
    const host = hosts[attempts % hosts.length];
    try {
      return await ask(agent, method, `https://${host}:6443${path}`, body);
    } catch (error) {
      attempts++;
      throw error;
    }
  };
}

function ask(agent: Agent, method: string, url: string, body: object | undefined): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const sent = request(url, { agent, method, headers, timeout: ANSWER_MS }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.once('error', reject);
      response.once('end', () => {
        if (response.statusCode === 200 || response.statusCode === 201) resolve(JSON.parse(text));
        else reject(new Error(`${method} ${url}: ${response.statusCode} ${text.slice(0, 200)}`));
      });
    });
    sent.once('timeout', () => sent.destroy(new Error(`${method} ${url}: no answer`)));
    sent.once('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
