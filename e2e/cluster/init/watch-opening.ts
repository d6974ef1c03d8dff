import { request } from 'node:https';
import { agentFromKubeconfig, connectToApi } from '../harness/api-counter.ts';

const WATCHED = '/api/v1/namespaces/kube-system/serviceaccounts?watch=true&timeoutSeconds=10';

/**
 * Measures the time until the first event of a watch without a resource version. Each watch opens right after a write
 * to another resource, because the API server responds only when its cache is as new as etcd.
 * @param rounds number of watches, opened one after the other
 * @returns milliseconds; rejects if a watch begins with anything but an existing object
 */
export async function measureWatchOpening(
  kubeconfigFile: string,
  host: string,
  rounds: number,
): Promise<readonly number[]> {
  const api = await connectToApi(kubeconfigFile, [host]);
  const agent = await agentFromKubeconfig(kubeconfigFile);
  const waits: number[] = [];
  try {
    for (let round = 0; round < rounds; round++) {
      const name = `elsewhere-${Date.now()}-${round}`;
      await api('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name }, data: {} });
      const startMs = performance.now();
      const line = await firstLine(host, agent);
      if (!line.includes('"type":"ADDED"')) throw new Error(`the watch began with ${line.slice(0, 300)}`);
      waits.push(Math.round(performance.now() - startMs));
    }
  } finally {
    agent.destroy();
  }
  return waits;
}

function firstLine(host: string, agent: Awaited<ReturnType<typeof agentFromKubeconfig>>): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request({ host, port: 6443, path: WATCHED, agent }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
        if (!text.includes('\n')) return;
        resolve(text.slice(0, text.indexOf('\n')));
        asked.destroy();
      });
      response.once('end', () => reject(new Error(`the watch ended: ${text.slice(0, 300)}`)));
    });
    asked.once('error', reject);
    asked.end();
  });
}
