import { place, type StoryCluster } from '../harness/story-cluster.ts';

const DIRECTORY = '/root/watcher';
const UNIT = 'story-watcher';

/**
 * A client that follows ConfigMaps through the API balancer of its node: it lists once, watches from its last version, and lists again only
 * when a server has refused that version. Each name that it has learned is a line of `names`, each refused version one of `refused`.
 */
const SCRIPT = `
import { appendFileSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
const text = readFileSync('${DIRECTORY}/kubeconfig', 'utf8');
const pem = (name) => Buffer.from(text.match(new RegExp(name + ': *(\\\\S+)'))[1], 'base64').toString();
const agent = new Agent({
  ca: pem('certificate-authority-data'), cert: pem('client-certificate-data'), key: pem('client-key-data'),
});
const write = (file, line) => appendFileSync('${DIRECTORY}/' + file, line + '\\n');
const open = (query) => new Promise((resolve, reject) => {
  const url = 'https://127.0.0.1:6445/api/v1/namespaces/default/configmaps' + query;
  const sent = request(url, { agent, timeout: 10_000 }, resolve);
  sent.once('timeout', () => sent.destroy(new Error('silence'))).once('error', reject).end();
});
let version;
const refuse = () => { write('refused', version); version = undefined; };
async function list() {
  let all = '';
  for await (const chunk of await open('')) all += chunk;
  const { metadata, items } = JSON.parse(all);
  for (const item of items) write('names', item.metadata.name);
  version = metadata.resourceVersion;
}
async function watch() {
  const response = await open('?watch=1&allowWatchBookmarks=true&resourceVersion=' + version);
  if (response.statusCode === 410) return refuse();
  let rest = '';
  for await (const chunk of response) {
    const lines = (rest + chunk).split('\\n');
    rest = lines.pop();
    for (const { type, object } of lines.map((line) => JSON.parse(line))) {
      if (type === 'ERROR') { if (object.code === 410) refuse(); return; }
      version = object.metadata.resourceVersion;
      if (type !== 'BOOKMARK') write('names', object.metadata.name);
    }
  }
}
for (;;) {
  await (version === undefined ? list() : watch()).catch((error) => write('errors', String(error)));
  await delay(300);
}
`;

/** Starts the client of `SCRIPT` on a node, with the credentials of this kubeconfig. */
export async function startNodeWatcher(
  cluster: StoryCluster,
  machine: string,
  kubeconfig: string,
): Promise<void> {
  await place(cluster, machine, `${DIRECTORY}/kubeconfig`, kubeconfig);
  await place(cluster, machine, `${DIRECTORY}/follow.mjs`, SCRIPT);
  // Workers have no kubectl. The agent has its own Node.
  const argv = ['/usr/lib/cluster/node', `${DIRECTORY}/follow.mjs`];
  await cluster.run(machine, 'systemd-run', '--quiet', `--unit=${UNIT}`, ...argv);
}

/** What the client has learned: whether the object existed, and how many times a server has refused its version. */
export async function readNodeWatcher(
  cluster: StoryCluster,
  machine: string,
  object: string,
): Promise<{ readonly knows: boolean; readonly refusals: number; readonly error: string }> {
  const script = `cd ${DIRECTORY}; touch names refused errors; grep -cx '${object}' names || true; wc -l < refused; tail -n 1 errors`;
  const [found, refused, error = ''] = (await cluster.sh(machine, script)).split('\n');
  return { knows: Number(found) > 0, refusals: Number(refused), error };
}
