import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { probeNode, probeReadyz } from './api-probe.ts';

const signal = new AbortController().signal;
const keyPem = generateKeyPem();
const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: Date.now() });
const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() });
const issue = (usage: 'client' | 'server'): Promise<string> =>
  signer.issue({
    commonName: `test ${usage}`,
    usages: [usage],
    names: [{ type: 'ip', value: '127.0.0.1' }],
    validDays: 1,
    pubKeyDer: pubKeyDerOf(keyPem),
  });
const clientCert = await issue('client');

describe('probes of an API server', () => {
  let server: Server;
  let port: number;
  let health = { status: 200, body: 'ok' };
  beforeAll(async () => {
    const tls = { ca: caPem, cert: await issue('server'), key: keyPem.reveal(), requestCert: true };
    server = createServer({ ...tls, rejectUnauthorized: false }, (request, response) => {
      const isAuthenticated = (request.socket as TLSSocket).authorized;
      if (request.url === '/readyz') response.writeHead(health.status).end(health.body);
      else if (!isAuthenticated) response.writeHead(401).end('Unauthorized');
      else if (request.url === '/api/v1/nodes/n2') response.end('{}');
      else response.writeHead(404).end('nodes "n3" not found');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
  });
  const node = (nodeName: string, certPem = clientCert, ca = caPem): Promise<void> =>
    probeNode({ endpoint: `127.0.0.1:${port}`, nodeName, caPem: ca, certPem, keyPem, signal });

  test('probeReadyz() rejects with the names of the readiness checks that failed', async () => {
    const ready = (): Promise<void> => probeReadyz({ host: '127.0.0.1', port, caPem, signal });
    await ready();
    health = { status: 500, body: '[+]ping ok\n[-]etcd failed\n' };
    await expect(ready()).rejects.toThrow('readyz answered 500: [-]etcd failed');
  });

  test('probeNode() resolves for a registered node and rejects with the API response otherwise', async () => {
    await node('n2');
    await expect(node('n3')).rejects.toThrow('answered 404: nodes "n3" not found');
  });

  test('probeNode() refuses an API server whose certificate is from another CA', async () => {
    const otherKey = generateKeyPem();
    const otherCaPem = await createCaCertPem({
      commonName: 'other',
      keyPem: otherKey,
      nowMs: Date.now(),
    });
    await expect(node('n2', await issue('client'), otherCaPem)).rejects.toThrow(/certificate|signature/);
  });
});
