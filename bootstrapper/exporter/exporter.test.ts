import { once } from 'node:events';
import { createServer, request, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { askApiServer } from './ask-api-server.ts';
import { parseExporterConfig } from './exporter-config.ts';
import { serveExporter } from './serve-exporter.ts';
import { TokenReviews } from './token-reviews.ts';

const clock = new SystemClock();
const HOST = '127.0.0.1';
const PROMETHEUS = 'head.prometheus.signature';
const TENANT = 'head.tenant.signature';
const stop = new AbortController();
/**
 * The reviews that the fake API server received, and its response to a known token: the HTTP status, and whether the
 * holder may read metrics.
 */
const api = { asked: [] as unknown[], status: 201, allowed: true as unknown, readyz: 200 };
let caPem: string;
let server: Server;
let serving: Promise<unknown>;
let port: number;

beforeAll(async () => {
  const { certPem, keyPem } = await createIdentity();
  server = createServer({ cert: certPem, key: keyPem.reveal() }, (asked, response) => {
    const token = asked.headers.authorization;
    let body = '';
    if (asked.url === '/readyz') {
      response.writeHead(token === undefined ? api.readyz : 401).end();
      return;
    }
    asked.setEncoding('utf8').on('data', (part: string) => (body += part));
    asked.on('end', () => {
      const { kind, spec } = JSON.parse(body) as Record<string, unknown>;
      api.asked.push([asked.url, token, kind, spec]);
      const isKnown = token === `Bearer ${PROMETHEUS}` || token === `Bearer ${TENANT}`;
      response.writeHead(isKnown ? api.status : 401);
      response.end(JSON.stringify({ status: { allowed: token === `Bearer ${PROMETHEUS}` && api.allowed } }));
    });
  });
  server.listen(0, HOST);
  await once(server, 'listening');
  const ask = askApiServer(
    { server: `https://${HOST}:${(server.address() as AddressInfo).port}`, caPem },
    clock,
  );
  const listening = Promise.withResolvers<number>();
  serving = serveExporter(
    {
      listen: { host: HOST, port: 0 },
      tls: { certPem, keyPem },
      // Each request gets new `TokenReviews`, so no decision about an earlier request is reused.
      reviews: { judge: (token, signal) => new TokenReviews({ ask, clock }).judge(token, signal) },
      render: async () => 'cluster_program_up 1\n',
      onListening: listening.resolve,
    },
    stop.signal,
  ).catch(() => undefined);
  port = await listening.promise;
});

beforeEach(() => {
  Object.assign(api, { asked: [], status: 201, allowed: true, readyz: 200 });
});

afterAll(async () => {
  stop.abort(new Error('done'));
  await serving;
  server.close();
  server.closeAllConnections();
});

async function createIdentity(): Promise<{ certPem: string; keyPem: Secret<string> }> {
  const nowMs = Date.now();
  const caKey = generateKeyPem();
  caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs });
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => nowMs });
  const keyPem = generateKeyPem();
  const certPem = await signer.issue({
    ...{ commonName: 'system:node:n1', pubKeyDer: pubKeyDerOf(keyPem), usages: ['server'] },
    ...{ names: [{ type: 'ip', value: HOST }], validDays: 1 },
  });
  return { certPem, keyPem };
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

function get(headers: Readonly<Record<string, string>>, path = '/metrics', method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: HOST, port, path, method, headers, ca: caPem, agent: false as const };
    const call = request(options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    call.once('error', reject);
    call.end();
  });
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe('parseExporterConfig()', () => {
  const config = {
    ...{ listen: { host: '0.0.0.0', port: 9097 }, isControlPlane: true },
    ...{ certFile: '/cert', keyFile: '/key', apiServer: 'https://127.0.0.1:6445', apiServerCaFile: '/ca' },
  };

  test('reads what the agent writes', () => {
    expect(parseExporterConfig(JSON.stringify(config))).toEqual(config);
  });

  test.each([
    { listen: undefined },
    { listen: { host: '0.0.0.0', port: '9097' } },
    { isControlPlane: 'no' },
    { keyFile: 'key' },
    { apiServer: 'http://127.0.0.1:6445' },
    { apiServerCaFile: undefined },
  ])('refuses %j', (change) => {
    expect(() => parseExporterConfig(JSON.stringify({ ...config, ...change }))).toThrow(SyntaxError);
  });
});

describe('the exporter', () => {
  test('serves metrics to the holder of a token with the right to get /metrics, and checks this right at the API server with that token', async () => {
    expect(await get(bearer(PROMETHEUS))).toEqual({ status: 200, text: 'cluster_program_up 1\n' });
    expect(api.asked).toEqual([
      [
        '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        `Bearer ${PROMETHEUS}`,
        'SelfSubjectAccessReview',
        { nonResourceAttributes: { path: '/metrics', verb: 'get' } },
      ],
    ]);
  });

  test.each([
    { name: 'a request without a token', headers: {}, status: 401, asked: 0 },
    { name: 'a text that is no token', headers: bearer('secret'), status: 401, asked: 0 },
    { name: 'a user name and a password', headers: { authorization: 'Basic YTpi' }, status: 401, asked: 0 },
    { name: 'a token that the API server does not know', headers: bearer('a.b.c'), status: 403, asked: 1 },
    { name: 'a token without the right to read metrics', headers: bearer(TENANT), status: 403, asked: 1 },
  ])('refuses $name', async ({ headers, status, asked }) => {
    expect(await get(headers)).toEqual({ status, text: '' });
    expect(api.asked.length).toBe(asked);
  });

  test('responds 503 while the API server does not decide', async () => {
    api.status = 500;
    expect(await get(bearer(PROMETHEUS))).toEqual({ status: 503, text: '' });
  });

  test('responds 503 when the API server that refuses a token is not ready, e.g. because it lacks etcd', async () => {
    api.readyz = 500;
    expect(await get(bearer('a.b.c'))).toEqual({ status: 503, text: '' });
    expect(await get(bearer(TENANT))).toEqual({ status: 503, text: '' });
  });

  test('responds 503 when the API server’s response is no review', async () => {
    api.allowed = 'yes';
    expect(await get(bearer(PROMETHEUS))).toEqual({ status: 503, text: '' });
  });

  test.each([
    ['/', 'GET'],
    ['/metrics', 'POST'],
    ['/metrics?x=1', 'GET'],
  ])('serves nothing at %s with %s', async (path, method) => {
    expect(await get(bearer(PROMETHEUS), path, method)).toEqual({ status: 404, text: '' });
  });
});
