import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { parse } from 'yaml';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../pki/index.ts';
import { Secret } from '../secret/index.ts';
import { SystemClock } from '../clock/index.ts';
import { FakeClock, settle } from '../testing/index.ts';
import {
  accessFromKubeconfig,
  KubeClient,
  listEvents,
  listPods,
  mergeKubeconfig,
  readinessOf,
  renderKubeconfig,
  waitForApi,
  waitForNodeReady,
  type KubeAccess,
} from './index.ts';

const never = new AbortController().signal;
const nowMs = Date.now();
type Answer = { readonly status?: number; readonly body: unknown } | 'silence';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function createSigner(): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => nowMs });
}

/** Starts an API server that requires a client certificate from its own CA. */
async function start(
  answer: (url: string) => Answer,
  name = '127.0.0.1',
): Promise<{ access: KubeAccess; signer: KeyCertificateSigner }> {
  const signer = await createSigner();
  const serverKey = generateKeyPem();
  const leaf = {
    pubKeyDer: pubKeyDerOf(serverKey),
    usages: ['server'],
    names: [{ type: 'ip', value: name }],
    validDays: 1,
  } as const;
  const cert = await signer.issue({ commonName: 'apiserver', ...leaf });
  const server: Server = createServer(
    { key: serverKey.reveal(), cert, ca: signer.caPem, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      const given = answer(request.url ?? '');
      if (given === 'silence') return;
      response.statusCode = given.status ?? 200;
      response.end(typeof given.body === 'string' ? given.body : JSON.stringify(given.body));
    },
  );
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
  const { port } = server.address() as AddressInfo;
  return { signer, access: await accessBy(signer, signer.caPem, `https://127.0.0.1:${port}`) };
}

async function accessBy(signer: KeyCertificateSigner, caPem: string, server: string): Promise<KubeAccess> {
  const keyPem = generateKeyPem();
  const certPem = await signer.issue({
    commonName: 'admin',
    pubKeyDer: pubKeyDerOf(keyPem),
    usages: ['client'],
    names: [],
    validDays: 1,
  });
  return { server, caPem, certPem, keyPem };
}

const client = (access: KubeAccess): KubeClient => new KubeClient(access, { clock: new SystemClock() });

describe('KubeClient', () => {
  test('authenticates with its certificate and reads objects', async () => {
    const { access } = await start(() => ({ body: { a: 1 } }));
    using kube = client(access);
    expect(await kube.getJson('/x', never)).toEqual({ a: 1 });
  });

  const failures = [
    {
      name: 'a refused client certificate',
      answer: { status: 401, body: { message: 'Unauthorized' } },
      want: { code: 'kube-refused', exit: 'refused' },
    },
    {
      name: 'a forbidden call',
      answer: { status: 403, body: { message: 'nodes is forbidden' } },
      want: { code: 'kube-refused', message: expect.stringContaining('nodes is forbidden') },
    },
    { name: 'an unknown object', answer: { status: 404, body: 'no' }, want: { code: 'kube-not-found' } },
    {
      name: 'an error of the server',
      answer: { status: 500, body: 'etcd' },
      want: { code: 'kube-failed', retryable: true },
    },
    { name: 'a response that is not JSON', answer: { body: '<html>' }, want: { code: 'kube-failed' } },
  ];
  test.each(failures)('maps $name to an error code', async ({ answer, want }) => {
    const { access } = await start(() => answer);
    using kube = client(access);
    await expect(kube.getJson('/x', never)).rejects.toMatchObject(want);
  });

  test('refuses a server with a certificate of another CA', async () => {
    const { access } = await start(() => ({ body: {} }));
    using kube = client({ ...access, caPem: (await createSigner()).caPem });
    await expect(kube.getText('/x', never)).rejects.toMatchObject({
      code: 'kube-other-authority',
      exit: 'refused',
    });
  });

  test('refuses a server whose certificate is for another address', async () => {
    const { access } = await start(() => ({ body: {} }), '192.0.2.1');
    using kube = client(access);
    await expect(kube.getText('/x', never)).rejects.toMatchObject({ code: 'kube-other-authority' });
  });

  test('reports that the server refuses the certificate of the client', async () => {
    const { access } = await start(() => ({ body: {} }));
    using kube = client(await accessBy(await createSigner(), access.caPem, access.server));
    await expect(kube.getText('/x', never)).rejects.toMatchObject({ name: 'KubeError' });
  });

  test('reports that no server listens', async () => {
    const { access } = await start(() => ({ body: {} }));
    for (const each of open.splice(0)) await each.close();
    using kube = client(access);
    await expect(kube.getText('/x', never)).rejects.toMatchObject({
      code: 'kube-unreachable',
      exit: 'unreachable',
    });
  });

  test('times out when the server is silent', async () => {
    const { access } = await start(() => 'silence');
    const clock = new FakeClock();
    using kube = new KubeClient(access, { clock });
    const request = kube.getText('/x', never);
    const refused = expect(request).rejects.toMatchObject({ code: 'kube-unreachable' });
    await clock.advance(10_000);
    await refused;
  });

  test('ends with the reason of its signal', async () => {
    const { access } = await start(() => 'silence');
    using kube = client(access);
    const stopping = new AbortController();
    const request = kube.getText('/x', stopping.signal);
    stopping.abort(new Error('enough'));
    await expect(request).rejects.toThrow('enough');
  });
});

const nodeList = (status: string, message = ''): Answer => ({
  body: {
    items: [{ metadata: { name: 'n1' }, status: { conditions: [{ type: 'Ready', status, message }] } }],
  },
});

describe('waitForApi() and waitForNodeReady()', () => {
  test('waits until the API is ready', async () => {
    let asked = 0;
    const { access } = await start(() =>
      ++asked < 3 ? { status: 500, body: 'etcd not ready' } : { body: 'ok' },
    );
    using kube = client(access);
    const seen: string[] = [];
    await waitForApi(kube, {
      clock: new SystemClock(),
      timeoutMs: 10_000,
      signal: never,
      onWait: (text) => seen.push(text),
    });
    expect(seen).toHaveLength(2);
  });

  test('waits until the node is Ready, and reports the reason of the kubelet', async () => {
    let answer: Answer = { body: { items: [] } };
    const { access } = await start(() => answer);
    const clock = new FakeClock();
    const seen: string[] = [];
    using kube = client(access);
    const wait = waitForNodeReady(kube, 'n1', {
      clock,
      timeoutMs: 60_000,
      signal: never,
      onWait: (text) => seen.push(text),
    });
    while (clock.sleeping === 0) await settle();
    answer = nodeList('False', 'cni plugin not initialized');
    await clock.advance(500);
    while (clock.sleeping === 0) await settle();
    answer = nodeList('True');
    await clock.advance(500);
    await wait;
    expect(seen).toEqual(['not registered yet', 'cni plugin not initialized']);
  });

  test('times out with the last reason', async () => {
    const { access } = await start(() => nodeList('False', 'disk pressure'));
    using kube = client(access);
    const wait = waitForNodeReady(kube, 'n1', { clock: new SystemClock(), timeoutMs: 0, signal: never });
    await expect(wait).rejects.toMatchObject({
      code: 'kube-wait-timeout',
      message: expect.stringContaining('disk pressure'),
    });
  });

  test('waits for an API server that has not written its default roles yet', async () => {
    const answers = [{ status: 403, body: { message: 'forbidden: User "owner" cannot get path "/readyz"' } }];
    const { access } = await start(() => answers.shift() ?? { body: 'ok' });
    const clock = new FakeClock();
    using kube = client(access);
    const seen: string[] = [];
    const wait = waitForApi(kube, {
      clock,
      timeoutMs: 1e6,
      signal: never,
      onWait: (text) => seen.push(text),
    });
    while (clock.sleeping === 0) await settle();
    await clock.advance(500);
    await wait;
    expect(seen).toEqual([expect.stringContaining('cannot get path "/readyz"')]);
  });

  test('fails at once when the API server refuses the credentials', async () => {
    const { access } = await start(() => ({ status: 401, body: {} }));
    using kube = client(access);
    await expect(
      waitForApi(kube, { clock: new SystemClock(), timeoutMs: 1e6, signal: never }),
    ).rejects.toMatchObject({ code: 'kube-refused' });
  });
});

describe('listing objects', () => {
  test('selects by namespace and label', async () => {
    const urls: string[] = [];
    const { access } = await start((url) => {
      urls.push(url);
      return { body: { items: [] } };
    });
    using kube = client(access);
    await listPods(kube, { signal: never });
    await listPods(kube, { namespace: 'a', labelSelector: 'x=y', signal: never });
    await listEvents(kube, 'a', never);
    expect(urls).toEqual([
      '/api/v1/pods',
      '/api/v1/namespaces/a/pods?labelSelector=x%3Dy',
      '/api/v1/namespaces/a/events',
    ]);
  });

  test('refuses objects of another shape', async () => {
    const { access } = await start(() => ({ body: { items: [{ metadata: {} }] } }));
    using kube = client(access);
    await expect(listPods(kube, { signal: never })).rejects.toMatchObject({ code: 'kube-failed' });
  });

  test('treats a node without a status as not ready', () => {
    const node = {
      metadata: { name: 'n', namespace: '', creationTimestamp: '', labels: {} },
      status: { conditions: [], addresses: [], nodeInfo: { kubeletVersion: '' } },
    };
    expect(readinessOf(node)).toEqual({ ready: false, why: 'the kubelet has not reported yet' });
  });

  test("makes the kubelet's message one printable line", () => {
    const message = 'up\u001b[2K\n! all is well';
    const node = {
      metadata: { name: 'n', namespace: '', creationTimestamp: '', labels: {} },
      status: {
        conditions: [{ type: 'Ready', status: 'False', reason: '', message }],
        addresses: [],
        nodeInfo: { kubeletVersion: '' },
      },
    };
    expect(readinessOf(node).why).toBe('up?[2K↵! all is well');
  });
});

describe('kubeconfig', () => {
  const access = (name: string): KubeAccess => ({
    server: `https://${name}:6443`,
    caPem: `ca of ${name}`,
    certPem: 'cert',
    keyPem: new Secret('key'),
  });
  const contexts = (text: string): unknown[] =>
    (parse(text) as { contexts: { name: string }[] }).contexts.map(({ name }) => name);

  test('reads a kubeconfig that renderKubeconfig() wrote', () => {
    const back = accessFromKubeconfig(renderKubeconfig('prod', access('a')), 'kubeconfig');
    expect({ ...back, keyPem: back.keyPem.reveal() }).toEqual({ ...access('a'), keyPem: 'key' });
  });

  test('makes the cluster the current context of a new kubeconfig', () => {
    const { text, context } = mergeKubeconfig(undefined, { name: 'prod', access: access('a') });
    expect(parse(text)).toMatchObject({ 'current-context': 'prod', clusters: [{ name: 'prod' }] });
    expect(context).toBe('prod');
  });

  test('keeps all other entries and the current context when it merges a cluster', () => {
    const existing = {
      path: 'x',
      text: 'apiVersion: v1\nkind: Config\npreferences: {colors: true}\ncurrent-context: mine\nclusters: [{name: mine, cluster: {server: "https://m"}}]\nusers: []\ncontexts: [{name: mine, context: {cluster: mine, user: me, namespace: ns}}]\n',
    };
    const merged = parse(mergeKubeconfig(existing, { name: 'prod', access: access('a') }).text) as Record<
      string,
      unknown
    >;
    expect(merged).toMatchObject({
      'current-context': 'mine',
      preferences: { colors: true },
      contexts: [{ name: 'mine', context: { namespace: 'ns' } }, { name: 'prod' }],
    });
  });

  test('adds a cluster under a new name if another cluster already has this name, and keeps the new name in later merges', () => {
    const first = mergeKubeconfig(undefined, { name: 'prod', access: access('a') });
    const second = mergeKubeconfig({ path: 'x', text: first.text }, { name: 'prod', access: access('b') });
    expect(second.context).toBe('prod-2');
    const again = mergeKubeconfig({ path: 'x', text: second.text }, { name: 'prod', access: access('b') });
    expect(again.context).toBe('prod-2');
    expect(contexts(again.text)).toEqual(['prod', 'prod-2']);
  });

  test('replaces the entries of a cluster whose CA was replaced', () => {
    const first = mergeKubeconfig(undefined, { name: 'prod', access: access('a') });
    const rotated = { ...access('a'), caPem: 'ca of the next generation' };
    const again = mergeKubeconfig({ path: 'x', text: first.text }, { name: 'prod', access: rotated });
    expect([again.context, contexts(again.text)]).toEqual(['prod', ['prod']]);
    expect(accessFromKubeconfig(again.text, 'x').caPem).toBe(rotated.caPem);
  });

  test('refuses an invalid kubeconfig without quoting it', () => {
    for (const text of ['clusters: 5', 'a: [', '- key: secret']) {
      const merge = (): unknown =>
        mergeKubeconfig({ path: '/home/me/.kube/config', text }, { name: 'prod', access: access('a') });
      expect(merge).toThrow(
        expect.objectContaining({
          code: 'kube-config-invalid',
          message: expect.not.stringContaining('secret'),
        }),
      );
    }
    expect(() => accessFromKubeconfig('{}', 'x')).toThrow(
      expect.objectContaining({ code: 'kube-config-invalid' }),
    );
  });
});
