import { once } from 'node:events';
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../../host/fake-host.ts';
import { runDashboard } from '../index.ts';
import { createFakeCluster } from '../fake-cluster.ts';

const EVIL = `"><script>alert(1)</script><img src=x onerror='alert(2)'>`;

let cluster: Awaited<ReturnType<typeof createFakeCluster>>;
let stopping: AbortController;
let running: Promise<unknown>;
let url: URL;
beforeEach(async () => {
  cluster = await createFakeCluster(4);
  stopping = new AbortController();
  const listening = Promise.withResolvers<string>();
  const host = new RecordingHost();
  host.result = (data) => listening.resolve((data as { readonly url: string }).url);
  const context = { ...cluster.harness.owner, host, signal: stopping.signal };
  running = runDashboard(context, { web: true }).catch((error: unknown) => error);
  url = new URL(await listening.promise);
});
afterEach(async () => {
  stopping.abort(new Error('the test has ended'));
  await running;
  await cluster[Symbol.asyncDispose]();
});

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  const asked = request({ host: '127.0.0.1', port: url.port, path, headers, method, agent: false });
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of answer) text += String(chunk);
  return { status: answer.statusCode, headers: answer.headers, text };
}

async function openPage() {
  const { headers } = await ask(`${url.pathname}${url.search}`);
  return { home: headers.location ?? '', cookie: headers['set-cookie']?.[0]?.split(';')[0] ?? '' };
}

/** The parts of the page, once they contain a text. */
async function partsWith(
  browser: { readonly home: string; readonly cookie: string },
  wanted: string,
  node = '',
) {
  for (;;) {
    const { text } = await ask(`${browser.home}data?node=${encodeURIComponent(node)}`, {
      cookie: browser.cookie,
    });
    if (text.includes(wanted))
      return (JSON.parse(text) as { readonly parts: Readonly<Record<string, string>> }).parts;
  }
}

describe('cluster dashboard --web', () => {
  test('listens on the loopback, and shows the cluster to the browser with the token', async () => {
    expect(url.hostname).toBe('127.0.0.1');
    const browser = await openPage();
    const page = await ask(browser.home, { cookie: browser.cookie });
    expect(page).toMatchObject({ status: 200, text: expect.stringContaining('<main>') });
    const parts = await partsWith(browser, 'UpdateNodeLabels');
    expect(parts['nodes']).toContain('data-node="n4"');
    expect(parts['head']).toContain('ann, viewer');
    expect(parts['map']).toContain('control planes');
  });

  test('shows nothing to anybody else: not even the list of nodes without the cookie', async () => {
    const { home } = await openPage();
    for (const path of [home, `${home}data`, `${home}logs?node=n1&path=`, '/', '/data'])
      expect((await ask(path)).status).toBe(401);
    expect((await ask(`${url.pathname}${url.search}`)).status).toBe(401);
  });

  test('answers no method but GET, and no name but those of the loopback', async () => {
    const { home, cookie } = await openPage();
    expect(await ask(home, { cookie }, 'POST')).toMatchObject({ status: 405, headers: { allow: 'GET' } });
    expect((await ask(home, { cookie, host: 'evil.example' })).status).toBe(421);
  });

  test('forbids everything from elsewhere, frames, and caches, also in refusals', async () => {
    const { home, cookie } = await openPage();
    for (const answer of [await ask(home, { cookie }), await ask('/')]) {
      const policy = answer.headers['content-security-policy'];
      expect(policy).toMatch(/^default-src 'none'; .*frame-ancestors 'none'$/);
      expect(policy).not.toMatch(/unsafe-|https?:|\*/);
      expect(answer.headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
    }
  });

  test('shows texts of nodes as text', async () => {
    cluster.nodes = cluster.nodes.map((node, index) => (index === 3 ? { ...node, name: EVIL } : node));
    const browser = await openPage();
    const parts = await partsWith(browser, 'alert(1)', EVIL);
    for (const text of Object.values(parts)) expect(text).not.toMatch(/<script|<img|['"]\s*onerror/);
  });

  test('streams the live log of a part of an agent, and of nothing that the node has not', async () => {
    const { home, cookie } = await openPage();
    await partsWith({ home, cookie }, 'n4');
    const path = `${home}logs?node=n1&path=root.roleserve`;
    const asked = request({ host: '127.0.0.1', port: url.port, path, headers: { cookie }, agent: false });
    asked.end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect(String((await once(answer, 'data'))[0])).toContain('data: ["one","two"]');
    answer.on('error', () => undefined); // the test hangs up
    asked.destroy();
    expect((await ask(`${home}logs?node=n1&path=root.other`, { cookie })).status).toBe(404);
    expect((await ask(`${home}logs?node=n9&path=`, { cookie })).status).toBe(404);
  });

  test('shows the trace of the chosen node from both ends', async () => {
    const browser = await openPage();
    const parts = await partsWith(browser, 'Time line of the join', 'n2');
    expect(parts['trace']).toContain('commit');
  });

  test('shows no longer what the cluster has begun to refuse', async () => {
    const browser = await openPage();
    await partsWith(browser, 'UpdateNodeLabels');
    cluster.refused.add('listAudit');
    const parts = await partsWith(browser, 'decisions: not for your role');
    expect(parts['decisions']).not.toContain('UpdateNodeLabels');
  });
});

test('cluster dashboard --web names a port that is taken', async () => {
  const context = { ...cluster.harness.owner, host: new RecordingHost() };
  await expect(runDashboard(context, { web: true, port: Number(url.port) })).rejects.toMatchObject({
    code: 'dashboard-port-taken',
  });
});
