import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { programOfBundle, TestApiServer, TestEtcd, untilServing } from '../../internal/testing/index.ts';
import { Helm } from './helm.ts';

const CHART = join(import.meta.dirname, 'flannel');
const SOURCE = { kind: 'path', path: CHART } as const;
const NAMESPACE = 'kube-flannel';
const KEY = 'flannel.alpha.coreos.com/backend-data';
/** The API server needs moments until it enforces a new policy. */
const TRIES = 150;
const POLL_MS = 200;
const { signal } = new AbortController();

let directory: string;
let etcd: TestEtcd;
let api: TestApiServer;
/** The token of the administrator. */
let admin: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-flannel-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  api = await TestApiServer.create(directory, etcd, member.endpoint);
  const access = await api.startForAdmin();
  admin = access.token;
  const path = process.env['PATH'] ?? '';
  const helm = new Helm({
    binary: await programOfBundle('helm', directory),
    commands: new ExecaRunner({ path }),
    kubeconfig: access.kubeconfig,
    env: { HOME: directory, PATH: path },
  });
  const chart = {
    ...{ name: 'flannel', namespace: NAMESPACE, source: SOURCE, needs: [] },
    ...{ values: { podCIDR: '10.244.0.0/16', backend: { type: 'wireguard' } } },
    ...{ wait: false, timeoutSeconds: 60 },
  } as const;
  await helm.install(chart, [CHART], { revision: '1' }, signal);
}, 200_000);

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

/** Creates an object as the administrator. */
async function create(path: string, body: object): Promise<{ readonly [name: string]: unknown }> {
  const { status, text } = await api.ask(path, { headers: { authorization: `Bearer ${admin}` }, body });
  if (status !== 201) throw new Error(`POST ${path}: ${text}`);
  return JSON.parse(text) as { readonly [name: string]: unknown };
}

/** A token as the kubelet gets it for the flannel pod of a node; without a node, one that is bound to nothing. */
async function tokenFor(node: string | undefined): Promise<string> {
  const own = `/api/v1/namespaces/${NAMESPACE}`;
  const pod =
    node === undefined
      ? undefined
      : await create(`${own}/pods`, {
          metadata: { name: `flannel-${node}` },
          spec: {
            ...{ nodeName: node, serviceAccountName: 'flannel' },
            containers: [{ name: 'main', image: 'none.example.org/none:1' }],
          },
        });
  const { uid } = (pod?.['metadata'] ?? {}) as { readonly uid?: string };
  const boundObjectRef = { kind: 'Pod', apiVersion: 'v1', name: `flannel-${node}`, uid };
  const { status } = await create(`${own}/serviceaccounts/flannel/token`, {
    spec: { expirationSeconds: 600, ...(pod === undefined ? {} : { boundObjectRef }) },
  });
  return (status as { readonly token: string }).token;
}

/** The answer to the change with which flannel makes its public key known. */
async function publish(token: string, node: string) {
  return api.ask(`/api/v1/nodes/${node}/status`, {
    method: 'PATCH',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/strategic-merge-patch+json',
    },
    body: { metadata: { annotations: { [KEY]: `{"PublicKey":"${Math.random()}"}` } } },
  });
}

test('flannel publishes the public key of its own node, and of no other', async () => {
  for (const name of ['n1', 'n2']) await create('/api/v1/nodes', { metadata: { name } });
  const token = await tokenFor('n1');
  let refused = await publish(token, 'n2');
  for (let tries = 0; refused.status === 200 && tries < TRIES; tries++) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    refused = await publish(token, 'n2');
  }
  expect(refused).toMatchObject({
    status: 403,
    text: expect.stringContaining('flannel may change the Node of its own node only') as unknown,
  });
  expect((await publish(token, 'n1')).status).toBe(200);
  expect((await publish(await tokenFor(undefined), 'n1')).status).toBe(403);
  expect((await publish(admin, 'n2')).status).toBe(200);
}, 60_000);
