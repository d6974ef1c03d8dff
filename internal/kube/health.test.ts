import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../pki/index.ts';
import { SystemClock } from '../clock/index.ts';
import { KubeClient, listReleases, readKubeletDisks, readServerTime } from './index.ts';

const signal = new AbortController().signal;
const HOUR_MS = 3_600_000;
const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

class AheadClock extends SystemClock {
  override nowMs(): number {
    return super.nowMs() + HOUR_MS;
  }
}

/** An API server whose certificate is valid at `issuedMs` and the day after. */
async function start(answer: unknown, issuedMs = Date.now()) {
  const keyPem = generateKeyPem();
  const nowMs = () => issuedMs;
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: issuedMs });
  const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  const own = generateKeyPem();
  const certPem = await signer.issue({
    ...{ commonName: 'kube-apiserver', pubKeyDer: pubKeyDerOf(own), usages: ['server', 'client'] },
    ...{ names: [{ type: 'ip', value: '127.0.0.1' }], validDays: 1 },
  });
  const asked: { accept: string | undefined }[] = [];
  const server = createServer({ key: own.reveal(), cert: certPem }, (request, response) => {
    asked.push({ accept: request.headers.accept });
    response.statusCode = request.url === '/readyz' ? 401 : 200;
    response.end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(server);
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { caPem, certPem, keyPem: own, server: url, asked };
}

describe('readServerTime()', () => {
  const timing = (clock: SystemClock) => ({ clock, signal });

  test('measures how far the clock of the server is ahead, also when the server refuses the request', async () => {
    const offsetMs = await readServerTime(await start({}), timing(new SystemClock()));
    expect(Math.abs(offsetMs)).toBeLessThan(2_000);
    const behindMs = await readServerTime(await start({}), timing(new AheadClock()));
    expect(Math.abs(behindMs + HOUR_MS)).toBeLessThan(2_000);
  });

  test('accepts a certificate that looks expired, because the clock of the client may be wrong', async () => {
    const server = await start({}, Date.now() - 30 * 24 * HOUR_MS);
    expect(Math.abs(await readServerTime(server, timing(new SystemClock())))).toBeLessThan(2_000);
  });

  test('refuses a server of another CA', async () => {
    const [{ server }, { caPem }] = await Promise.all([start({}), start({})]);
    await expect(readServerTime({ server, caPem }, timing(new SystemClock()))).rejects.toMatchObject({
      code: 'kube-other-authority',
    });
  });

  test('accepts a server certificate that any CA in the bundle has signed', async () => {
    const [own, other] = await Promise.all([start({}), start({})]);
    const caPem = `${other.caPem}\n${own.caPem}`;
    await expect(readServerTime({ ...own, caPem }, timing(new SystemClock()))).resolves.toBeDefined();
  });

  test('reports a server that does not respond', async () => {
    const { caPem } = await start({});
    const server = 'https://127.0.0.1:1';
    await expect(readServerTime({ server, caPem }, timing(new SystemClock()))).rejects.toMatchObject({
      code: 'kube-unreachable',
    });
  });
});

describe('listReleases()', () => {
  test('reads labels only, and returns the newest revision of each release', async () => {
    const secret = (version: string, status: string) => ({
      metadata: { namespace: 'web', labels: { owner: 'helm', name: 'hello', version, status } },
    });
    const access = await start({
      items: [secret('9', 'superseded'), secret('10', 'failed'), secret('8', 'deployed')],
    });
    using client = new KubeClient(access, { clock: new SystemClock() });
    expect(await listReleases(client, signal)).toEqual([
      { namespace: 'web', name: 'hello', revision: 10, status: 'failed' },
    ]);
    expect(access.asked[0]?.accept).toContain('PartialObjectMetadataList');
  });

  test('finds none where the API server writes null for an empty list', async () => {
    const access = await start({ items: null });
    using client = new KubeClient(access, { clock: new SystemClock() });
    expect(await listReleases(client, signal)).toEqual([]);
  });

  test('reads what `cluster init` installed, and ignores a label that is no revision', async () => {
    const secret = (name: string, revision: string) => ({
      metadata: {
        namespace: 'web',
        labels: {
          name,
          version: '3',
          status: 'deployed',
          'cluster-inputs': 'ab',
          'cluster-revision': revision,
        },
      },
    });
    const access = await start({ items: [secret('a', '2'), secret('b', '2x')] });
    using client = new KubeClient(access, { clock: new SystemClock() });
    const release = { namespace: 'web', revision: 3, status: 'deployed', inputs: 'ab' };
    expect(await listReleases(client, signal)).toEqual([
      { ...release, name: 'a', installedRevision: 2 },
      { ...release, name: 'b' },
    ]);
  });
});

describe('readKubeletDisks()', () => {
  test('reads the disk of the kubelet and the disk of the images', async () => {
    const fs = { availableBytes: 1, capacityBytes: 2, inodes: 3, inodesFree: 4, time: 'x' };
    const access = await start({
      node: { fs, runtime: { imageFs: { availableBytes: 5, capacityBytes: 6 } } },
    });
    using client = new KubeClient(access, { clock: new SystemClock() });
    expect(await readKubeletDisks(client, 'n1', signal)).toEqual([
      { name: 'kubelet disk', availableBytes: 1, capacityBytes: 2, inodes: 3, inodesFree: 4 },
      { name: 'image disk', availableBytes: 5, capacityBytes: 6 },
    ]);
  });

  test('refuses a response without a node', async () => {
    const access = await start({});
    using client = new KubeClient(access, { clock: new SystemClock() });
    await expect(readKubeletDisks(client, 'n1', signal)).rejects.toMatchObject({ code: 'kube-failed' });
  });
});
