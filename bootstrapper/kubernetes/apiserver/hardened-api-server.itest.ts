import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DEFAULT_HARDENING, extraArgumentsSchema } from '../../../internal/config/index.ts';
import { DiskFiles, type FilePort } from '../../../internal/file/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { findFreePort, programOfBundle, TestEtcd, untilServing } from '../../../internal/testing/index.ts';
import { settings } from '../fake-machine.ts';
import { buildKubeadmConfig } from '../kubeadm/kubeadm-config.ts';
import { PATHS } from '../settings.ts';
import { writeAdmissionConfig } from './admission-config.ts';
import { writeAuditPolicy } from './audit-policy.ts';
import { writeAuthenticationConfig } from './authentication-config.ts';

const READY_MS = 90_000;
const POLL_MS = 200;
/** Arguments whose files this test does not have. */
const LEFT_OUT = ['authorization-config', 'encryption-provider-config', 'kubelet-certificate-authority'];
/** Limits that the test reaches: a file of the audit log has at least 1 MB. The unit tests have those of clusters. */
const SMALLER: Readonly<Record<string, string>> = { 'audit-log-maxsize': '1', 'audit-log-maxbackup': '2' };
/** Events of a namespace that are accepted at once. */
const EVENTS = 20;
const BODY = 'c2VjcmV0LWJvZHktb2YtdGhlLXRlc3Q=';
const hardened = {
  ...settings,
  hardening: DEFAULT_HARDENING,
  // Every argument that the configuration allows, so that a release without one of them fails here.
  extraArguments: extraArgumentsSchema.parse({
    apiServer: {
      'default-not-ready-toleration-seconds': 30,
      'default-unreachable-toleration-seconds': 31,
      'delete-collection-workers': 2,
      'event-ttl': '2h30m',
      'goaway-chance': 0.001,
      'max-mutating-requests-inflight': 100,
      'max-requests-inflight': 200,
      'min-request-timeout': 600,
      'runtime-config': 'resource.k8s.io/v1beta2=true',
      'service-node-port-range': '20000-20999',
      v: 1,
    },
  }),
};

let directory: string;
let etcd: TestEtcd;
let apiServer: ChildProcess;
let port: number;
let admin: { readonly cert: string; readonly key: string };
let output = '';

/** The path on this machine for a path of a node. */
function moved(path: string): string {
  return join(directory, path.replaceAll('/', '-'));
}

/** Starts a real API server of the bundle with the arguments that the agent gives to kubeadm. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-hardened-'));
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  const client = await etcd.clientFiles('apiserver');
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });
  const ca = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => Date.now() });
  admin = await administrator(ca);
  const tokenKey = createPrivateKey(generateKeyPem().reveal());
  const files = {
    'etcd-ca.crt': client.caPem,
    'client.crt': client.certPem,
    'client.key': client.keyPem.reveal(),
    'ca.crt': caPem,
    'sa.key': tokenKey.export({ type: 'sec1', format: 'pem' }).toString(),
    'sa.pub': createPublicKey(tokenKey).export({ type: 'spki', format: 'pem' }).toString(),
  };
  for (const [name, text] of Object.entries(files))
    await writeFile(join(directory, name), text, { mode: 0o600 });
  const disk = relocated();
  await writeAdmissionConfig(disk, hardened);
  await allowFewEvents();
  await writeAuthenticationConfig(disk, hardened);
  await writeAuditPolicy(disk);
  port = await findFreePort();
  apiServer = spawn(await programOfBundle('kube-apiserver', directory), flags(member.endpoint), {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [apiServer.stdout, apiServer.stderr])
    stream?.on('data', (part: Buffer) => (output = (output + part.toString('utf8')).slice(-20_000)));
  await untilReady();
}, 150_000);

afterAll(async () => {
  if (apiServer.exitCode === null) {
    apiServer.kill('SIGKILL');
    await once(apiServer, 'exit');
  }
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

/** Replaces the limit of a namespace, because thousands of events would take too long. */
async function allowFewEvents(): Promise<void> {
  const path = onThisMachine(PATHS.admission);
  const { plugins, ...rest } = JSON.parse(await readFile(path, 'utf8')) as {
    plugins: { name: string; configuration: { limits?: { type: string }[] } }[];
  };
  const limits = plugins.find(({ name }) => name === 'EventRateLimit')?.configuration.limits ?? [];
  const limit = limits.find(({ type }) => type === 'Namespace');
  if (limit === undefined) throw new Error('events of a namespace have no limit');
  Object.assign(limit, { qps: 1, burst: EVENTS });
  await writeFile(path, JSON.stringify({ ...rest, plugins }));
}

/** The path on this machine for a file of a node. */
function onThisMachine(path: string): string {
  return join(moved(dirname(path)), path.slice(dirname(path).length + 1));
}

function relocated(): FilePort {
  const files = new DiskFiles();
  return Object.assign(Object.create(files) as DiskFiles, {
    makeDirectory: (path: string, mode?: number) => files.makeDirectory(moved(path), mode),
    writeAtomic: (path: string, text: string) => files.writeAtomic(onThisMachine(path), text),
  });
}

function flags(etcdEndpoint: string): string[] {
  const at = (name: string): string => join(directory, name);
  const etcdFiles = { endpoint: '', caFile: '', certFile: '', keyFile: '' };
  const [, cluster = ''] = buildKubeadmConfig(hardened, etcdFiles).split('\n---\n');
  const { apiServer: own } = JSON.parse(cluster) as {
    readonly apiServer: { readonly extraArgs: readonly { readonly name: string; readonly value: string }[] };
  };
  return [
    `--etcd-servers=https://${etcdEndpoint}`,
    `--etcd-cafile=${at('etcd-ca.crt')}`,
    `--etcd-certfile=${at('client.crt')}`,
    `--etcd-keyfile=${at('client.key')}`,
    `--client-ca-file=${at('ca.crt')}`,
    '--authorization-mode=RBAC',
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${at('serving')}`,
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${at('sa.pub')}`,
    `--service-account-signing-key-file=${at('sa.key')}`,
    '--service-cluster-ip-range=10.96.0.0/16',
    ...own.extraArgs
      .filter(({ name }) => !LEFT_OUT.some((each) => name.startsWith(each)))
      .map(({ name, value }) => ({ name, value: SMALLER[name] ?? value }))
      .map(({ name, value }) => `--${name}=${value.startsWith('/') ? onThisMachine(value) : value}`),
  ];
}

async function administrator(ca: KeyCertificateSigner) {
  const keyPem = generateKeyPem();
  const leaf = {
    commonName: 'admin',
    organization: 'system:masters',
    usages: ['client'],
    names: [],
  } as const;
  const cert = await ca.issue({ ...leaf, validDays: 1, pubKeyDer: pubKeyDerOf(keyPem) });
  return { cert, key: keyPem.reveal() };
}

async function call(
  path: string,
  options: RequestOptions & { readonly object?: object } = {},
): Promise<{ readonly status: number; readonly body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const { object, ...more } = options;
  const headers = { 'content-type': 'application/json' };
  const sent = request(
    { host: '127.0.0.1', port, path, agent: false, rejectUnauthorized: false, headers, ...more },
    (response) => {
      let body = '';
      response.on('data', (part: Buffer) => (body += part.toString('utf8')));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
    },
  );
  sent.on('error', reject);
  sent.end(object === undefined ? undefined : JSON.stringify(object));
  return promise;
}

const create = (path: string, object: object) => call(path, { ...admin, method: 'POST', object });

async function untilReady(): Promise<void> {
  const endMs = Date.now() + READY_MS;
  for (;;) {
    if (apiServer.exitCode !== null) throw new Error(`the API server has ended: ${output}`);
    const { status } = await call('/readyz').catch(() => ({ status: 0 }));
    if (status === 200) return;
    if (Date.now() > endMs) throw new Error(`the API server is not ready: ${output}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

describe('an API server with the hardening of a new cluster', () => {
  test.each(['/healthz', '/livez', '/readyz'])('answers %s without credentials', async (path) => {
    expect((await call(path)).status).toBe(200);
  });

  test.each([
    '/version',
    '/api',
    '/apis',
    '/livez/etcd',
    '/metrics',
    '/openid/v1/jwks',
    '/api/v1/namespaces',
  ])('answers %s without credentials with 401', async (path) => {
    expect((await call(path)).status).toBe(401);
  });

  test('refuses a Service with external IPs, even of an administrator', async () => {
    const spec = { externalIPs: ['192.0.2.1'], ports: [{ port: 80 }] };
    const { status, body } = await create('/api/v1/namespaces/default/services', {
      metadata: { name: 'taken' },
      spec,
    });
    expect([status, body]).toEqual([403, expect.stringContaining('external IPs')]);
  });

  test('runs with every argument that the configuration allows', async () => {
    const allowed = extraArgumentsSchema.shape.apiServer.unwrap().shape;
    expect(Object.keys(hardened.extraArguments.apiServer ?? {}).sort()).toEqual(Object.keys(allowed).sort());
    const service = (nodePort: number) =>
      create('/api/v1/namespaces/default/services', {
        metadata: { name: `port-${nodePort}` },
        spec: { type: 'NodePort', ports: [{ port: 80, nodePort }] },
      });
    expect((await service(20_500)).status).toBe(201);
    expect((await service(30_500)).body).toContain('20000-20999');
    expect((await call('/apis/resource.k8s.io/v1beta2', admin)).status).toBe(200);
  });

  test.each([
    { name: 'TLS 1.1', options: { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } },
    {
      name: 'TLS 1.2 without authenticated encryption',
      options: { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-SHA:@SECLEVEL=0' },
    },
  ] as const)('refuses $name', async ({ options }) => {
    await expect(call('/readyz', options)).rejects.toThrow(/alert|EPROTO|ECONNRESET|protocol|handshake/i);
  });

  test('accepts TLS 1.2 with forward secrecy and authenticated encryption', async () => {
    const options = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' } as const;
    expect((await call('/readyz', options)).status).toBe(200);
  });

  test('logs who wrote a Secret and changed a role, with the role but without the Secret', async () => {
    const data = { password: BODY };
    const metadata = { name: 'audited' };
    for (const kind of ['secrets', 'configmaps'])
      expect((await create(`/api/v1/namespaces/default/${kind}`, { metadata, data })).status).toBe(201);
    const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }];
    const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles';
    expect((await create(roles, { metadata, rules })).status).toBe(201);
    const path = join(moved(dirname(PATHS.auditLog)), 'audit.log');
    const text = await readFile(path, 'utf8');
    expect(text).not.toContain(BODY);
    const entries = text
      .split('\n')
      .filter((line) => line.includes('"name":"audited"'))
      .map(
        (line) =>
          JSON.parse(line) as { level: string; objectRef: { resource: string }; responseObject?: object },
      );
    expect(Object.fromEntries(entries.map(({ level, objectRef }) => [objectRef.resource, level]))).toEqual({
      secrets: 'Metadata',
      configmaps: 'Metadata',
      roles: 'RequestResponse',
    });
    expect(entries.find(({ objectRef }) => objectRef.resource === 'roles')?.responseObject).toMatchObject({
      rules,
    });
    expect(text).not.toContain('"requestURI":"/readyz"');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(dirname(path))).mode & 0o777).toBe(0o700);
  });

  test('answers 429 when a namespace gets more events than allowed', async () => {
    const event = (number: number) =>
      create('/api/v1/namespaces/default/events', {
        metadata: { name: `event-${number}` },
        involvedObject: { kind: 'Namespace', namespace: 'default', name: 'default' },
        ...{ type: 'Normal', reason: 'Test', message: 'test' },
      });
    const answers = await Promise.all(Array.from({ length: 4 * EVENTS }, (_, number) => event(number)));
    const having = (status: number) => answers.filter((each) => each.status === status).length;
    expect(having(201)).toBeGreaterThanOrEqual(EVENTS);
    expect(having(429)).toBeGreaterThanOrEqual(EVENTS);
    expect(having(201) + having(429)).toBe(answers.length);
  });

  // The last one, because the files that the other tests read are rotated.
  test('rotates the audit log at its size, and keeps no more files than allowed', async () => {
    // A role is logged with its body.
    const resourceNames = Array.from({ length: 4000 }, (_, number) => `${'x'.repeat(60)}-${number}`);
    const rules = [{ apiGroups: [''], resources: ['pods'], resourceNames, verbs: ['get'] }];
    for (let number = 0; number < 12; number++) {
      const metadata = { name: `large-${number}` };
      const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles';
      expect((await create(roles, { metadata, rules })).status).toBe(201);
    }
    const log = moved(dirname(PATHS.auditLog));
    // A file may be deleted between both calls.
    const sizeOf = async (name: string): Promise<number[]> =>
      stat(join(log, name)).then(
        ({ size }) => [size],
        () => [],
      );
    const sizes = async (): Promise<readonly number[]> =>
      (await Promise.all((await readdir(log)).map(sizeOf))).flat();
    // Old files are deleted in the background.
    for (let polls = 0; polls < 100 && (await sizes()).length > 3; polls++)
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const found = await sizes();
    expect(found).toHaveLength(3);
    expect(Math.max(...found)).toBeLessThanOrEqual(1024 ** 2);
  });
});
