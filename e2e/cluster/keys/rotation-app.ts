import assert from 'node:assert/strict';
import { eventually, type NodeShell } from '../harness/node-shell.ts';

/** The report that the app prints every second. */
export interface AppReport {
  /** Number of successful responses of the API. */
  readonly good: number;
  /** Number of responses that refused the token. */
  readonly refused: number;
  /**
   * The longest time without a response since the counter last changed; includes a pause that still lasts.
   */
  readonly longestMs: number;
  /** The newest count that the watch has received. */
  readonly watched: number;
  /** How often the watch could not resume at its last version and had to list again. */
  readonly relists: number;
}

/**
 * Calls the API twice a second with the token of its service account, which it reads again each time like
 * client libraries do. It also watches a ConfigMap from the last version that it saw. It runs with the
 * agent's Node, because the image of the bundle has no shell.
 */
const PROGRAM = `
const https = require('node:https'), fs = require('node:fs');
const of = '/var/run/secrets/kubernetes.io/serviceaccount/';
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
const path = '/api/v1/namespaces/default/configmaps';
let good = 0, refused = 0, longestMs = 0, watched = 0, relists = 0, lastMs = Date.now(), version = '';
const ask = (path, onData, timeout) => new Promise((resolve, reject) => {
  const headers = { authorization: 'Bearer ' + fs.readFileSync(of + 'token', 'utf8') };
  const asked = https.request({ host, port, path, headers, timeout, ca: fs.readFileSync(of + 'ca.crt'), agent: false }, (answer) => {
    if (answer.statusCode === 401) refused++;
    let text = '';
    answer.on('data', (part) => { text = onData(text + part); });
    answer.on('end', () => resolve(answer.statusCode === 200 ? text : undefined));
    answer.on('error', reject);
  });
  asked.on('timeout', () => asked.destroy(new Error('timeout')));
  asked.on('error', reject);
  asked.end();
});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const poll = async () => {
  for (;;) {
    const text = await ask(path + '/story', (all) => all, 2000).catch(() => undefined);
    if (text !== undefined) { good++; longestMs = Math.max(longestMs, Date.now() - lastMs); lastMs = Date.now(); }
    await pause(500);
  }
};
const only = '?fieldSelector=metadata.name%3Dstory';
const seeing = (object) => {
  if (Number(object.data.count) === watched) return;
  watched = Number(object.data.count);
  longestMs = 0;
};
const watch = async () => {
  for (;;) {
    try {
      if (version === '') {
        const list = JSON.parse(await ask(path + only, (all) => all, 5000));
        version = list.metadata.resourceVersion;
        list.items.forEach(seeing);
        relists++;
      }
      await ask(path + only + '&watch=1&allowWatchBookmarks=true&resourceVersion=' + version, (all) => {
        const lines = all.split('\\n');
        for (const line of lines.slice(0, -1)) {
          const { type, object } = JSON.parse(line);
          version = type === 'ERROR' ? '' : object.metadata.resourceVersion;
          if (type === 'ADDED' || type === 'MODIFIED') seeing(object);
        }
        return lines.at(-1);
      }, 600000);
    } catch {}
    await pause(300);
  }
};
setInterval(() => console.log(JSON.stringify({ good, refused, longestMs: Math.max(longestMs, Date.now() - lastMs), watched, relists })), 1000);
poll(); watch();
`;

const LIBRARIES = '/host/lib/x86_64-linux-gnu';
const meta = { name: 'app', namespace: 'default' };
const labels = { app: 'app' };
const OBJECTS = [
  // The pods use Node from the host through a hostPath volume, which Pod Security would refuse without this
  // label.
  {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'default', labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
  },
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...meta, name: 'story' }, data: { count: '1' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: meta },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: meta,
    rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: meta,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'app' },
    subjects: [{ kind: 'ServiceAccount', ...meta }],
  },
  {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: meta,
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: 'app',
          tolerations: [{ operator: 'Exists' }],
          terminationGracePeriodSeconds: 0,
          volumes: [{ name: 'host', hostPath: { path: '/usr' } }],
          containers: [
            {
              name: 'app',
              image: 'cluster.local/web:0.1.0',
              imagePullPolicy: 'IfNotPresent',
              command: [
                `${LIBRARIES}/ld-linux-x86-64.so.2`,
                ...['--library-path', LIBRARIES, '/host/lib/cluster/node', '--eval', PROGRAM],
              ],
              securityContext: { runAsUser: 0 },
              volumeMounts: [{ name: 'host', mountPath: '/host', readOnly: true }],
            },
          ],
        },
      },
    },
  },
];

/** Deploys the app on every node, and waits until it works on the given nodes. */
export async function deployApp(node: NodeShell, nodes: readonly string[]): Promise<void> {
  const base64 = Buffer.from(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: OBJECTS })).toString(
    'base64',
  );
  await node.run('sh', '-ec', `echo ${base64} | base64 -d | kubectl apply -f -`);
  for (const name of nodes)
    await eventually(
      `the app of ${name} asks the API`,
      120,
      () => reportOf(node, name),
      ({ good, watched }) => good > 3 && watched === 1,
    );
}

export async function reportOf(node: NodeShell, name: string): Promise<AppReport> {
  const selector = ['-n', 'default', '-l', 'app=app', '--field-selector', `spec.nodeName=${name}`];
  const pod = await node.kubectl('get', 'pods', ...selector, '-o', 'name');
  const line = await node.kubectl('logs', '-n', 'default', '--tail=1', pod.trim());
  return JSON.parse(line.trim()) as AppReport;
}

/** Changes the count in the ConfigMap that all apps watch. */
export async function change(node: NodeShell, count: number): Promise<void> {
  const patch = JSON.stringify({ data: { count: String(count) } });
  await node.kubectl('patch', 'configmap', '-n', 'default', 'story', '--type=merge', '-p', patch);
}

const SYSTEM: readonly string[] = ['kube-system', 'kube-flannel'];

interface Pods {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly spec: { readonly nodeName: string };
    readonly status: {
      readonly containerStatuses: readonly { readonly containerID: string; readonly restartCount: number }[];
    };
  }[];
}

/**
 * Lines of "NODE POD CONTAINER RESTARTS" of all pods on these nodes. Excludes the pods of the system, because a
 * rotation restarts them: static pods of control planes, kube-proxy, CoreDNS and the pod network.
 */
export async function containersOf(node: NodeShell, nodes: readonly string[]): Promise<readonly string[]> {
  const { items } = JSON.parse(await node.kubectl('get', 'pods', '-A', '-o', 'json')) as Pods;
  const own = items.filter(
    ({ metadata, spec }) => !SYSTEM.includes(metadata.namespace) && nodes.includes(spec.nodeName),
  );
  const lines = own.flatMap(({ metadata, spec, status }) =>
    status.containerStatuses.map(
      ({ containerID, restartCount }) => `${spec.nodeName} ${metadata.name} ${containerID} ${restartCount}`,
    ),
  );
  assert.ok(lines.length >= nodes.length, lines.join('\n'));
  return lines.toSorted();
}
