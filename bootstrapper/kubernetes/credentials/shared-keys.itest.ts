import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExecaRunner, type CommandRunner } from '../../../internal/exec/index.ts';
import { DiskFiles, type FilePort } from '../../../internal/file/index.ts';
import { trustedPem, createPairs, type KeySet, type RotatingPair } from '../../../internal/keyset/index.ts';
import { generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../../../internal/pki/index.ts';
import type { TlsIdentity } from '../../../internal/rpc/index.ts';
import {
  type ApiRequest,
  programOfBundle,
  TestApiServer,
  TestEtcd,
  untilServing,
} from '../../../internal/testing/index.ts';
import { removeRetiredCas } from '../controlplane/retired-cas.ts';
import { placeKubernetesKeys } from './shared-keys.ts';

/**
 * These tests run a real API server of the bundle and a real etcd, with the files that `placeKubernetesKeys`
 * writes.
 */
const nowMs = (): number => Date.now();
const signal = new AbortController().signal;
const FOLLOWS_MS = 75_000;
const POLL_MS = 250;
const SETTLED = { kubernetes: 'etc/kubernetes', kubelet: 'var/lib/cluster/kubernetes' };

let directory: string;
let etcd: TestEtcd;
let kubectl: string;
let apiServer: TestApiServer;
let set: KeySet;
let files: FilePort;

const pki = (name: string): string => join(directory, SETTLED.kubernetes, 'pki', name);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-shared-keys-'));
  for (const path of [`${SETTLED.kubernetes}/pki`, SETTLED.kubelet])
    await mkdir(join(directory, path), { recursive: true });
  files = relocated();
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  set = {
    generation: 2,
    phase: 'trust',
    previous: await createPairs(1, nowMs()),
    next: await createPairs(2, nowMs()),
  };
  await writeFile(pki('ca.crt'), set.previous['kubernetes-clients-ca'].public);
  await placeKubernetesKeys(files, set);
  apiServer = await TestApiServer.create(directory, etcd, member.endpoint);
  kubectl = await programOfBundle('kubectl', directory);
  await start();
}, 150_000);

afterAll(async () => {
  await apiServer.stop();
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

async function reach(phase: KeySet['phase']): Promise<void> {
  set = { ...set, phase };
  await placeKubernetesKeys(files, set);
}

/** Redirects the absolute paths of a control plane to the directory of this test. */
function relocated(): FilePort {
  const disk = new DiskFiles();
  const move = (path: string): string => join(directory, path);
  return Object.assign(Object.create(disk) as DiskFiles, {
    read: (path: string, maxBytes: number) => disk.read(move(path), maxBytes),
    stat: (path: string) => disk.stat(move(path)),
    makeDirectory: () => Promise.resolve(),
    writeAtomic: (path: string, text: string, options: { mode?: number }) =>
      disk.writeAtomic(move(path), text, options),
  });
}

async function start(): Promise<void> {
  const flags = [
    `--client-ca-file=${pki('clients-ca.crt')}`,
    `--requestheader-client-ca-file=${pki('front-proxy-believed.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    '--authorization-mode=AlwaysAllow',
    '--anonymous-auth=false',
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${pki('sa.pub')}`,
    `--service-account-signing-key-file=${pki('sa.key')}`,
  ];
  await apiServer.start(flags, await clientOf(active('kubernetes-clients-ca')));
}

async function restartApiServer(): Promise<void> {
  await apiServer.stop();
  await start();
}

const active = (name: 'kubernetes-clients-ca' | 'front-proxy-ca'): RotatingPair =>
  (set.phase === 'trust' ? set.previous : set.next)[name];

async function clientOf(
  { public: caPem, private: keyPem }: RotatingPair,
  commonName = 'admin',
): Promise<TlsIdentity> {
  const key = generateKeyPem();
  const leaf = {
    commonName,
    pubKeyDer: pubKeyDerOf(key),
    usages: ['client'],
    names: [],
    validDays: 1,
  } as const;
  return { keyPem: key, certPem: await new KeyCertificateSigner({ caPem, keyPem, nowMs }).issue(leaf) };
}

const statusOf = async (asked: ApiRequest): Promise<number> =>
  (await apiServer.ask('/api/v1/namespaces/default', asked)).status;

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = nowMs() + FOLLOWS_MS;
  while (!(await isSo())) {
    if (nowMs() > endMs) throw new Error(`${what} took longer than ${FOLLOWS_MS} ms: ${apiServer.output}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const asAnybody = { 'X-Remote-User': 'anybody', 'X-Remote-Group': 'system:masters' };
const bearer = (token: string): ApiRequest => ({ headers: { authorization: `Bearer ${token}` } });

async function newToken(): Promise<string> {
  const identity = await clientOf(active('kubernetes-clients-ca'));
  const accounts = '/api/v1/namespaces/default/serviceaccounts';
  await apiServer.ask(accounts, {
    identity,
    body: { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'one' } },
  });
  const asked = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
  const { text } = await apiServer.ask(`${accounts}/one/token`, { identity, body: asked });
  return (JSON.parse(text) as { status: { token: string } }).status.token;
}

test('an API server that trusts two CAs admits clients of both, and refuses the previous CA without a restart once it is removed', async () => {
  const { previous, next } = set;
  const [old, fresh] = [previous, next].map((pairs) => pairs['kubernetes-clients-ca']);
  const [oldProxy, newProxy] = [previous, next].map((pairs) => pairs['front-proxy-ca']);
  if (old === undefined || fresh === undefined || oldProxy === undefined || newProxy === undefined) return;
  const clients = [await clientOf(old), await clientOf(fresh)];
  const proxies = [
    await clientOf(oldProxy, 'front-proxy-client'),
    await clientOf(newProxy, 'front-proxy-client'),
  ];
  const statuses = async () => [
    ...(await Promise.all(clients.map((identity) => statusOf({ identity })))),
    ...(await Promise.all(proxies.map((identity) => statusOf({ identity, headers: asAnybody })))),
  ];
  expect(await statuses()).toEqual([200, 200, 200, 200]);
  const pid = apiServer.process.pid;
  await reach('retire');
  await until('dropping the previous ones', async () => (await statuses()).join() === '401,200,401,200');
  await reach('trust');
  await until('believing both again', async () => (await statuses()).join() === '200,200,200,200');
  expect(apiServer.process.pid).toBe(pid);
}, 180_000);

test('an API server verifies tokens with the keys that it read at its start', async () => {
  await restartApiServer();
  const old = await newToken();
  expect(await statusOf(bearer(old))).toBe(200);
  await reach('issue');
  await restartApiServer();
  const fresh = await newToken();
  expect(await Promise.all([old, fresh].map((token) => statusOf(bearer(token))))).toEqual([200, 200]);
  await reach('retire');
  // The API server has not read the new file.
  expect(await statusOf(bearer(old))).toBe(200);
  await restartApiServer();
  expect(await Promise.all([old, fresh].map((token) => statusOf(bearer(token))))).toEqual([401, 200]);
}, 180_000);

test('the ConfigMap for extension API servers keeps previous CAs until they are removed, and API servers do not add them again', async () => {
  const identity = await clientOf(active('kubernetes-clients-ca'));
  const config = join(directory, 'admin.conf');
  const data = (pem: string): string => Buffer.from(pem, 'utf8').toString('base64');
  const user = {
    'client-certificate-data': data(identity.certPem),
    'client-key-data': data(identity.keyPem.reveal()),
  };
  const cluster = { server: `https://127.0.0.1:${apiServer.port}`, 'insecure-skip-tls-verify': true };
  const conf = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  };
  await writeFile(config, JSON.stringify(conf), { mode: 0o600 });
  const runner = new ExecaRunner({ path: '/usr/bin:/bin' });
  const commands: CommandRunner = {
    run: (command) => {
      const [, , , ...args] = command.argv;
      // Without its own cache directory, kubectl would write its cache into the repository.
      const own = ['--kubeconfig', config, '--cache-dir', join(directory, 'kubectl-cache')] as const;
      return runner.run({ ...command, argv: [kubectl, ...own, ...args] });
    },
  };
  const told = async (): Promise<Readonly<Record<string, string>>> => {
    const path = '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication';
    return (JSON.parse((await apiServer.ask(path, { identity })).text) as { data: Record<string, string> })
      .data;
  };
  const oldProxy = set.previous['front-proxy-ca'].public.trim();
  expect((await told())['requestheader-client-ca-file']).toContain(oldProxy);
  await removeRetiredCas({ commands, files }, signal);
  // Each API server updates the ConfigMap once a minute and after each change.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect((await told())['requestheader-client-ca-file']?.trim()).toBe(
    trustedPem(set, 'front-proxy-ca').trim(),
  );
  expect((await told())['client-ca-file']?.trim()).toBe(trustedPem(set, 'kubernetes-clients-ca').trim());
}, 60_000);

test('a stopping API server waits for watches, and a second signal terminates it at once', async () => {
  const identity = await clientOf(active('kubernetes-clients-ca'));
  const own = { cert: identity.certPem, key: identity.keyPem.reveal(), rejectUnauthorized: false };
  const watch = request(
    { ...own, host: '127.0.0.1', port: apiServer.port, path: '/api/v1/namespaces?watch=true' },
    (response) => response.resume(),
  );
  watch.on('error', () => undefined);
  watch.end();
  await once(watch, 'response');
  apiServer.process.kill('SIGTERM');
  await until('stops listening', async () => {
    const code = await apiServer
      .ask('/readyz', { identity })
      .catch((error: NodeJS.ErrnoException) => error.code);
    return code === 'ECONNREFUSED';
  });
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  expect(apiServer.process.exitCode).toBeNull();
  const ended = once(apiServer.process, 'exit');
  const toldMs = nowMs();
  apiServer.process.kill('SIGTERM');
  await ended;
  expect(nowMs() - toldMs).toBeLessThan(2_000);
}, 120_000);
