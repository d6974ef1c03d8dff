import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { TestApiServer, TestEtcd, untilServing } from '../../internal/testing/index.ts';
import { askApiServer } from './ask-api-server.ts';
import type { AskAboutToken } from './token-reviews.ts';

const HOST = '127.0.0.1';
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const ACCOUNTS = '/api/v1/namespaces/default/serviceaccounts';
const { signal } = new AbortController();

let directory: string;
let etcd: TestEtcd;
let api: TestApiServer;
let ask: AskAboutToken;
let admin: { readonly certPem: string; readonly keyPem: Secret<string> };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-exporter-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  api = await TestApiServer.create(directory, etcd, member.endpoint);
  const nowMs = Date.now();
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs });
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => nowMs });
  const issue = async (usage: 'server' | 'client') => {
    const keyPem = generateKeyPem();
    const certPem = await signer.issue({
      ...{ commonName: 'admin', organization: 'system:masters', pubKeyDer: pubKeyDerOf(keyPem) },
      ...{ usages: [usage], names: [{ type: 'ip', value: HOST }], validDays: 1 },
    });
    return { certPem, keyPem };
  };
  admin = await issue('client');
  const serving = await issue('server');
  const tokenKey = createPrivateKey(generateKeyPem().reveal());
  const files = {
    ...{ 'ca.crt': caPem, 'serving.crt': serving.certPem, 'serving.key': serving.keyPem.reveal() },
    'sa.key': tokenKey.export({ type: 'sec1', format: 'pem' }).toString(),
    'sa.pub': createPublicKey(tokenKey).export({ type: 'spki', format: 'pem' }).toString(),
  };
  for (const [name, text] of Object.entries(files))
    await writeFile(join(directory, name), text, { mode: 0o600 });
  await api.start(flags(), admin);
  ask = askApiServer({ server: `https://${HOST}:${api.port}`, caPem }, new SystemClock());
}, 150_000);

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

function flags(): readonly string[] {
  const at = (name: string): string => join(directory, name);
  return [
    ...[`--client-ca-file=${at('ca.crt')}`, '--authorization-mode=RBAC'],
    ...[`--tls-cert-file=${at('serving.crt')}`, `--tls-private-key-file=${at('serving.key')}`],
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${at('sa.pub')}`,
    `--service-account-signing-key-file=${at('sa.key')}`,
  ];
}

/** The token of a new service account. */
async function tokenOf(name: string): Promise<Secret<string>> {
  await create(ACCOUNTS, { metadata: { name } });
  const { text } = await create(`${ACCOUNTS}/${name}/token`, { spec: {} });
  return new Secret((JSON.parse(text) as { readonly status: { readonly token: string } }).status.token);
}

async function create(path: string, body: object): Promise<{ readonly text: string }> {
  const answer = await api.ask(path, { identity: admin, body });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer;
}

async function mayReadMetrics(account: string): Promise<void> {
  const metadata = { name: `metrics-${account}` };
  await create(`${RBAC}/clusterroles`, {
    metadata,
    rules: [{ nonResourceURLs: ['/metrics'], verbs: ['get'] }],
  });
  await create(`${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: metadata.name },
    subjects: [{ kind: 'ServiceAccount', name: account, namespace: 'default' }],
  });
}

test('a real API server allows metrics to a service account with the role of the Helm chart, and refuses them once the service account is deleted', async () => {
  const token = await tokenOf('prometheus');
  await mayReadMetrics('prometheus');
  expect(await ask(token, signal)).toBe(true);
  await api.ask(`${RBAC}/clusterrolebindings/metrics-prometheus`, { identity: admin, method: 'DELETE' });
  expect(await ask(token, signal)).toBe(false);
});

test('a real API server refuses metrics to other service accounts and to invented tokens', async () => {
  const token = await tokenOf('tenant');
  expect(await ask(token, signal)).toBe(false);
  expect(await ask(new Secret(`${token.reveal().slice(0, -8)}AAAAAAAA`), signal)).toBe(false);
});

test('a token is neither allowed nor refused while no API server answers', async () => {
  const token = await tokenOf('late');
  await api.stop();
  await expect(ask(token, signal)).rejects.toMatchObject({ code: 'kube-unreachable' });
});
