import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { PORTS } from '../../internal/endpoint/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { contextOf, createCuratorHarness, type FakeCuratorCalls } from '../cluster/curator/fake-curator.ts';
import { createKubernetes, FakeResponse } from '../cluster/curator/fake-kubernetes.ts';
import { plantedSecrets } from './redact/fake-secrets.ts';
import { runSupportBundle, runSupportOpen } from './index.ts';

const ADDRESS = '127.0.71.2';
const SECRET = 'hunter2hunter2';
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

const pod = {
  metadata: { namespace: 'shop', name: 'web', annotations: { note: SECRET }, labels: { app: 'web' } },
  spec: {
    nodeName: 'n1',
    containers: [{ name: 'web', image: 'web:1', args: [SECRET], env: [{ name: 'A', value: SECRET }] }],
  },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
};
const event = {
  type: 'Warning',
  reason: 'Failed',
  message: `env DB_PASSWORD=${SECRET} is wrong`,
  metadata: {},
};

const apiServerPod = {
  metadata: { namespace: 'kube-system', name: 'kube-apiserver-n1' },
  spec: { containers: [{ name: 'kube-apiserver' }] },
};
const LOG = '/api/v1/namespaces/kube-system/pods/kube-apiserver-n1/log?container=kube-apiserver';

function kubernetes(url: string, planted: readonly string[]): unknown {
  if (planted.length > 0 && url.startsWith(LOG)) return new FakeResponse(200, planted.join('\n'));
  if (planted.length > 0 && url.startsWith('/api/v1/events'))
    return { items: planted.map((message) => ({ ...event, message })) };
  if (planted.length > 0 && url.startsWith('/apis/apps/v1/deployments'))
    return { items: planted.map((message) => ({ status: { conditions: [{ message }] } })) };
  if (planted.length > 0 && url.startsWith('/api/v1/services'))
    return new FakeResponse(500, planted.join('\n'));
  if (url === '/version') return { gitVersion: 'v1.37.2' };
  if (url === '/api/v1/namespaces/kube-system/pods') return { items: [apiServerPod] };
  if (url.startsWith(`${LOG}&tailLines=100&`)) return { log: `password: ${SECRET}` };
  if (url.startsWith('/api/v1/pods')) return { items: [pod] };
  if (url.startsWith('/api/v1/events')) return { items: [event] };
  if (url.startsWith('/api/v1/nodes/')) return { node: {} };
  return { items: [] };
}

/** @param planted lines that every source has which gives text */
async function createCluster(curator: FakeCuratorCalls = {}, planted: readonly string[] = []) {
  let endpoint = '';
  const configuration = { charts: [{ name: 'shop', values: { login: SECRET } }] };
  const harness = await createCuratorHarness(
    {
      checkHealth: async () => ({ nodeId: 'node-1' }),
      getClusterInfo: async () => ({
        clusterName: 'prod',
        directory: [{ nodeId: 'node-1', name: 'n1', curatorEndpoint: endpoint }],
      }),
      listNodes: async () => ({
        nodes: [
          {
            ...{
              nodeId: 'node-1',
              name: 'n1',
              state: NodeState.UP,
              health: NodeHealth.HEALTHY,
              createdMs: 1n,
            },
            roles: [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER],
            status: {
              ...{ address: ADDRESS, facts: { note: planted.slice(0, 40).join('\n') } },
              runnables: planted.map((message, index) => ({ path: `root.${index}`, lastError: { message } })),
            },
          },
        ],
      }),
      getConfiguration: async () => ({ document: new TextEncoder().encode(JSON.stringify(configuration)) }),
      ...curator,
    },
    {
      listJoins: async () => ({ joins: planted.map((message) => ({ joinId: 'join-1', message })) }),
      getKeys: async () => ({}),
      getCollateral: async () => ({}),
      listBackups: async () => ({}),
    },
    {
      getMetrics: async () => ({ text: ['up 1', ...planted, ''].join('\n') }),
      streamLogs: async function* ({ logs }) {
        const units = logs?.source.case === 'units' ? logs.source.value.names : [];
        if (units.includes('kubelet.service')) throw new Error(planted[150] ?? 'journal is gone');
        const lines = ['started', `password: ${SECRET}`, ...planted, ''].join('\n');
        yield { lines: new TextEncoder().encode(lines), dropped: 3n };
      },
    },
    { address: ADDRESS },
  );
  open.push(harness);
  ({ endpoint } = harness);
  const spec = { metadata: { annotations: {} }, spec: {} };
  open.push(
    await createKubernetes(harness.files, '/owner/kubeconfig', spec, {
      ...{ address: ADDRESS, port: PORTS.apiServer, acceptsAnonymous: true },
      answer: ({ url }) => kubernetes(url, planted),
    }),
  );
  const directory = await mkdtemp(join(tmpdir(), 'cluster-support-'));
  open.push({ [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) });
  const context = contextOf(harness.files, '/owner');
  return { files: harness.files, context, to: join(directory, 'a.support') };
}

const OPTIONS = { recipients: [], lines: 100, windowMs: 1 };

interface Manifest extends Result {
  readonly files: readonly { readonly path: string }[];
}

interface Result {
  readonly missing: readonly { readonly path: string; readonly error: string }[];
}

describe('runSupportBundle()', () => {
  test('collects logs, records and Kubernetes without secrets, and the doctor judges the file', async () => {
    const { context, files, to } = await createCluster();
    await runSupportBundle(context, { ...OPTIONS, to }, []);
    expect((await stat(to)).mode & 0o777).toBe(0o600);
    expect((await readFile(to)).subarray(0, 21).toString()).toBe('age-encryption.org/v1');
    const { missing } = context.host.answered as Result;
    expect(missing.map(({ path }) => path)).toEqual(['nodes/n1/kubelet.log']);
    const opener = contextOf(files, '/owner');
    await runSupportOpen(opener, to, { to: '/opened' });
    const read = async (path: string) =>
      Buffer.from((await files.read(`/opened/${path}`, 1e6)) ?? '').toString();
    expect(await read('nodes/n1/agent.log')).toContain('3 lines dropped\nstarted\npassword: <removed>');
    expect(JSON.parse(await read('kubernetes/pods.json'))).toMatchObject([
      { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'web:1' }] } },
    ]);
    expect(await read('kubernetes/logs/kube-apiserver-n1/kube-apiserver.log')).toContain('<removed>');
    expect(await read('kubernetes/events.json')).toContain('DB_PASSWORD=<removed>');
    expect(JSON.parse(await read('configuration.json'))).toEqual({ charts: [{ name: 'shop' }] });
    const manifest = JSON.parse(await read('manifest.json')) as Manifest;
    for (const { path } of manifest.files) expect(await read(path)).not.toContain(SECRET);
    const opened = opener.host.answered as { readonly verdict: string; readonly clusterName: string };
    expect(opened.clusterName).toBe('prod');
    expect(opened.verdict).toBe('unhealthy');
  });

  test('planted secrets of every shape in every source of the cluster are not in the bundle', async () => {
    const planted = plantedSecrets();
    const { context, files, to } = await createCluster(
      {},
      planted.map(({ line }) => line),
    );
    await runSupportBundle(context, { ...OPTIONS, to }, []);
    await runSupportOpen(contextOf(files, '/owner'), to, { to: '/opened' });
    const read = async (path: string) =>
      Buffer.from((await files.read(`/opened/${path}`, 1e8)) ?? '').toString();
    const manifest = JSON.parse(await read('manifest.json')) as Manifest;
    const texts = new Map([['manifest.json', JSON.stringify(manifest)]]);
    for (const { path } of manifest.files) texts.set(path, await read(path));
    for (const path of [
      ...['nodes/n1/agent.log', 'nodes/n1/metrics.txt', 'joins.json', 'nodes.json'],
      ...['kubernetes/events.json', 'kubernetes/deployments.json'],
      'kubernetes/logs/kube-apiserver-n1/kube-apiserver.log',
    ])
      expect([path, (texts.get(path)?.split('<removed>').length ?? 0) > planted.length / 2]).toEqual([
        path,
        true,
      ]);
    expect(manifest.missing.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['nodes/n1/kubelet.log', 'kubernetes/services.json']),
    );
    const seen = planted.flatMap(({ shape, secret }) =>
      [...texts]
        .filter(([, text]) => text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1)))
        .map(([path]) => `${shape} in ${path}`),
    );
    expect(seen).toEqual([]);
  });

  test('makes a bundle without curators, and lists what is missing', async () => {
    const cutOff = async (): Promise<never> => {
      throw new Error('closed');
    };
    const { context, to } = await createCluster({
      checkHealth: cutOff,
      listNodes: cutOff,
      getClusterInfo: cutOff,
    });
    await runSupportBundle(context, { ...OPTIONS, to }, []);
    const { missing } = context.host.answered as Result;
    expect(missing.map(({ path }) => path)).toEqual(['nodes']);
    expect(missing[0]).toEqual({
      path: 'nodes',
      error: expect.stringMatching(/^no curator responds.*`cluster support bundle --local`/),
    });
  });

  test('a file that exists is not changed', async () => {
    const { context, files, to } = await createCluster();
    await files.makeDirectory(dirname(to));
    await files.writeAtomic(to, 'before');
    await expect(runSupportBundle(context, { ...OPTIONS, to }, [])).rejects.toMatchObject({
      code: 'support-file-exists',
    });
  });

  test('a recipient that is no recovery key is refused before anything is collected', async () => {
    const { context, to } = await createCluster();
    await expect(
      runSupportBundle(context, { ...OPTIONS, to, recipients: ['age1x'] }, []),
    ).rejects.toMatchObject({ code: 'backup-recipient-invalid' });
  });
});
