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
  let health = { status: 200, words: 'ok' };
  beforeAll(async () => {
    const tls = { ca: caPem, cert: await issue('server'), key: keyPem.reveal(), requestCert: true };
    server = createServer({ ...tls, rejectUnauthorized: false }, (request, response) => {
      const isKnown = (request.socket as TLSSocket).authorized;
      if (request.url === '/readyz') response.writeHead(health.status).end(health.words);
      else if (!isKnown) response.writeHead(401).end('Unauthorized');
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

  test('probeReadyz() says which check failed', async () => {
    const ready = (): Promise<void> => probeReadyz({ host: '127.0.0.1', port, caPem, signal });
    await ready();
    health = { status: 500, words: '[+]ping ok\n[-]etcd failed\n' };
    await expect(ready()).rejects.toThrow('readyz answers 500: [-]etcd failed');
  });

  test('probeNode() finds the node that has registered, and says why not', async () => {
    await node('n2');
    await expect(node('n3')).rejects.toThrow('answers 404: nodes "n3" not found');
  });

  test('probeNode() asks as the kubelet, and only an API server of its own cluster', async () => {
    const strangerKey = generateKeyPem();
    const stranger = await createCaCertPem({
      commonName: 'other',
      keyPem: strangerKey,
      nowMs: Date.now(),
    });
    await expect(node('n2', await issue('client'), stranger)).rejects.toThrow(/certificate|signature/);
  });
});
