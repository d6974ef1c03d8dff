import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DEFAULT_HARDENING } from '../../../internal/config/index.ts';
import { settings } from '../fake-machine.ts';
import { createEvents, createPod, EVENTS, FakeControlPlane, lifetimeOfToken } from './fake-control-plane.ts';

const YEAR_SECONDS = 365 * 24 * 3600;

let apiServer: FakeControlPlane;

beforeAll(async () => {
  apiServer = await FakeControlPlane.create({
    ...settings,
    hardening: {
      ...DEFAULT_HARDENING,
      anonymousRequests: 'all',
      eventRateLimit: false,
      serviceExternalIps: true,
      extendedTokens: true,
      strongCiphers: false,
    },
    podSecurity: { enforce: 'privileged', exemptNamespaces: [], allowCloudMetadata: true },
  });
}, 150_000);

afterAll(() => apiServer[Symbol.asyncDispose](), 30_000);

/** What the settings in docs/hardening.json undo, at a real API server. */
describe('an API server whose hardening is undone, as with kubeadm', () => {
  test('answers a request without credentials', async () => {
    expect((await apiServer.ask('/version')).status).toBe(200);
    expect((await apiServer.ask('/api/v1/namespaces')).status).toBe(403);
  });

  test('creates a Service with external IPs', async () => {
    const spec = { externalIPs: ['192.0.2.1'], ports: [{ port: 80 }] };
    const service = { metadata: { name: 'external' }, spec };
    expect((await apiServer.create('/api/v1/namespaces/default/services', service)).status).toBe(201);
  });

  test('accepts TLS 1.2 without authenticated encryption', async () => {
    const options = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-SHA:@SECLEVEL=0' } as const;
    expect((await apiServer.ask('/readyz', options)).status).toBe(200);
  });

  test('does not limit events', async () => {
    const statuses = await createEvents(apiServer, 4 * EVENTS);
    expect(new Set(statuses)).toEqual(new Set([201]));
  });

  test('creates a privileged pod', async () => {
    expect((await createPod(apiServer, { name: 'privileged', privileged: true })).status).toBe(201);
  });

  test('gives a pod a token for a year, which it warns about after an hour', async () => {
    expect(await lifetimeOfToken(apiServer)).toBe(YEAR_SECONDS);
  });
});
