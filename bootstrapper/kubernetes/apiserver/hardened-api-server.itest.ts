import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_HARDENING, extraArgumentsSchema } from '../../../internal/config/index.ts';
import { settings } from '../fake-machine.ts';
import { createEvents, createPod, EVENTS, FakeControlPlane, lifetimeOfToken } from './fake-control-plane.ts';

const POLL_MS = 200;
const BODY = 'c2VjcmV0LWJvZHktb2YtdGhlLXRlc3Q=';
const hardened = {
  ...settings,
  hardening: DEFAULT_HARDENING,
  podSecurity: { enforce: 'baseline' as const, exemptNamespaces: [], allowCloudMetadata: false },
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

let apiServer: FakeControlPlane;

beforeAll(async () => {
  apiServer = await FakeControlPlane.create(hardened);
}, 150_000);

afterAll(() => apiServer[Symbol.asyncDispose](), 30_000);

describe('an API server with the hardening of a new cluster', () => {
  test.each(['/healthz', '/livez', '/readyz'])('answers %s without credentials', async (path) => {
    expect((await apiServer.ask(path)).status).toBe(200);
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
    expect((await apiServer.ask(path)).status).toBe(401);
  });

  test('refuses a Service with external IPs, even of an administrator', async () => {
    const spec = { externalIPs: ['192.0.2.1'], ports: [{ port: 80 }] };
    const { status, text } = await apiServer.create('/api/v1/namespaces/default/services', {
      metadata: { name: 'taken' },
      spec,
    });
    expect([status, text]).toEqual([403, expect.stringContaining('external IPs')]);
  });

  test('refuses a privileged pod, even of an administrator', async () => {
    const { status, text } = await createPod(apiServer, { name: 'privileged', privileged: true });
    expect([status, text]).toEqual([403, expect.stringContaining('violates PodSecurity')]);
  });

  test('gives a pod a token for an hour', async () => {
    expect(await lifetimeOfToken(apiServer)).toBe(3607);
  });

  test('runs with every argument that the configuration allows', async () => {
    const allowed = extraArgumentsSchema.shape.apiServer.unwrap().shape;
    expect(Object.keys(hardened.extraArguments.apiServer ?? {}).sort()).toEqual(Object.keys(allowed).sort());
    const service = (nodePort: number) =>
      apiServer.create('/api/v1/namespaces/default/services', {
        metadata: { name: `port-${nodePort}` },
        spec: { type: 'NodePort', ports: [{ port: 80, nodePort }] },
      });
    expect((await service(20_500)).status).toBe(201);
    expect((await service(30_500)).text).toContain('20000-20999');
    expect((await apiServer.get('/apis/resource.k8s.io/v1beta2')).status).toBe(200);
  });

  test.each([
    { name: 'TLS 1.1', options: { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' } },
    {
      name: 'TLS 1.2 without authenticated encryption',
      options: { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-SHA:@SECLEVEL=0' },
    },
  ] as const)('refuses $name', async ({ options }) => {
    await expect(apiServer.ask('/readyz', options)).rejects.toThrow(
      /alert|EPROTO|ECONNRESET|protocol|handshake/i,
    );
  });

  test('accepts TLS 1.2 with forward secrecy and authenticated encryption', async () => {
    const options = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' } as const;
    expect((await apiServer.ask('/readyz', options)).status).toBe(200);
  });

  test('logs who wrote a Secret and changed a role, with the role but without the Secret', async () => {
    const data = { password: BODY };
    const metadata = { name: 'audited' };
    for (const kind of ['secrets', 'configmaps'])
      expect((await apiServer.create(`/api/v1/namespaces/default/${kind}`, { metadata, data })).status).toBe(
        201,
      );
    const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }];
    const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles';
    expect((await apiServer.create(roles, { metadata, rules })).status).toBe(201);
    const path = join(apiServer.auditDirectory, 'audit.log');
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
    expect((await stat(apiServer.auditDirectory)).mode & 0o777).toBe(0o700);
  });

  test('answers 429 when a namespace gets more events than allowed', async () => {
    const statuses = await createEvents(apiServer, 4 * EVENTS);
    const having = (wanted: number) => statuses.filter((status) => status === wanted).length;
    expect(having(201)).toBeGreaterThanOrEqual(EVENTS);
    expect(having(429)).toBeGreaterThanOrEqual(EVENTS);
    expect(having(201) + having(429)).toBe(statuses.length);
  });

  // The last one, because the files that the other tests read are rotated.
  test('rotates the audit log at its size, and keeps no more files than allowed', async () => {
    // A role is logged with its body.
    const resourceNames = Array.from({ length: 4000 }, (_, number) => `${'x'.repeat(60)}-${number}`);
    const rules = [{ apiGroups: [''], resources: ['pods'], resourceNames, verbs: ['get'] }];
    const log = async (name: string): Promise<void> => {
      const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles';
      expect((await apiServer.create(roles, { metadata: { name }, rules })).status).toBe(201);
    };
    for (let number = 0; number < 12; number++) await log(`large-${number}`);
    const directory = apiServer.auditDirectory;
    // A file may be deleted between both calls.
    const sizeOf = async (name: string): Promise<number[]> =>
      stat(join(directory, name)).then(
        ({ size }) => [size],
        () => [],
      );
    const sizes = async (): Promise<readonly number[]> =>
      (await Promise.all((await readdir(directory)).map(sizeOf))).flat();
    // Old files are deleted in the background, and after two rotations at one time only with the next one.
    for (let polls = 1; polls < 100 && (await sizes()).length > 3; polls++) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      if (polls % 10 === 0) for (const part of ['a', 'b']) await log(`more-${polls}-${part}`);
    }
    const found = await sizes();
    expect(found).toHaveLength(3);
    expect(Math.max(...found)).toBeLessThanOrEqual(1024 ** 2);
  });
});
