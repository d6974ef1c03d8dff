import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../../host/fake-host.ts';
import { runExplainJoin } from '../../nodes/index.ts';
import { createFakeCluster } from '../fake-cluster.ts';
import { runDashboard } from '../index.ts';
import { startBrowser, type Browser } from './fake-browser.ts';

const PICTURES = join(import.meta.dirname, '../../../dist/dashboard');
const EVIL = `"><script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'>`;

let browser: Browser;
let stopping: AbortController;
const open: AsyncDisposable[] = [];
beforeEach(async () => {
  await mkdir(PICTURES, { recursive: true });
  stopping = new AbortController();
  browser = await startBrowser();
});
afterEach(async () => {
  stopping.abort(new Error('the test has ended'));
  for (const each of [browser, ...open.splice(0)]) await each[Symbol.asyncDispose]();
});

async function startPage(nodes: number) {
  const cluster = await createFakeCluster(nodes);
  const listening = Promise.withResolvers<string>();
  const host = new RecordingHost();
  host.result = (data) => listening.resolve((data as { readonly url: string }).url);
  const running = runDashboard(
    { ...cluster.harness.owner, host, signal: stopping.signal },
    { web: true },
  ).catch((error: unknown) => error);
  open.push({ [Symbol.asyncDispose]: async () => void (await running) }, cluster);
  return { cluster, url: await listening.promise };
}

/** Waits until an expression is true in the page, which looks at it after each change of the page. */
async function until(expression: string): Promise<void> {
  await browser.evaluate(`new Promise((resolve) => {
    const look = () => { if (${expression}) { observer.disconnect(); resolve(); } };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
  })`);
}

const textOf = (id: string): string => `document.getElementById('${id}').textContent`;

async function picture(name: string, size: Parameters<Browser['screenshot']>[0]): Promise<void> {
  await writeFile(join(PICTURES, `${name}.png`), await browser.screenshot(size));
}

describe('the page of cluster dashboard --web in a real browser', () => {
  test('shows nodes, all plots, and the log of a part of a node; needs nothing from elsewhere', async () => {
    const { url, cluster } = await startPage(5);
    await browser.open(url);
    await until(`${textOf('nodes')}.includes('n5') && document.querySelector('#latencies polyline')`);
    for (const id of ['map', 'heartbeats', 'latencies', 'certificates', 'trace'])
      await until(`document.querySelector('#${id} svg')`);
    cluster.nodes = cluster.nodes.map((node) => (node.name === 'n5' ? { ...node, health: 3 } : node));
    await until(`document.querySelector('#nodes .bad')?.textContent === 'NotResponding'`);
    await browser.evaluate(`document.querySelector('button[data-node="n2"]').click()`);
    await until(`${textOf('node')}.includes('Node n2')`);
    await browser.evaluate(`document.querySelector('button[data-log-path="root.roleserve"]').click()`);
    await until(`${textOf('log-lines')} === 'one\\ntwo'`);
    await picture('five-nodes', { width: 1280, height: 1600 });
    await picture('five-nodes-dark', { width: 1280, height: 1600, isDark: true });
    await picture('five-nodes-narrow', { width: 480, height: 1600 });
    const { origin } = new URL(url);
    expect(
      browser.requested.filter((each) => !each.startsWith(`${origin}/`) && each !== 'about:blank'),
    ).toEqual([]);
    expect(browser.messages.filter((each) => !each.includes('favicon'))).toEqual([]);
  });

  test('the address works once', async () => {
    const { url } = await startPage(1);
    await browser.open(url);
    await until(`${textOf('nodes')}.includes('n1')`);
    await browser.open(url);
    expect(await browser.evaluate('document.body.textContent')).toContain('It works once');
  });

  test('runs nothing that a node has sent, and would run nothing if it became markup', async () => {
    const { url, cluster } = await startPage(4);
    cluster.logLines = [EVIL];
    cluster.nodes = cluster.nodes.map((node, index) => (index === 0 ? { ...node, name: EVIL } : node));
    await browser.open(url);
    await until(`${textOf('nodes')}.includes('window.attacked')`);
    await browser.evaluate(`document.querySelector('[data-log-node]').click()`);
    await until(`${textOf('log-lines')}.includes('window.attacked')`);
    expect(await browser.evaluate(`document.querySelectorAll('main script, main img').length`)).toBe(0);
    // The policy alone stops what a fault of the escaping would let through.
    await browser.evaluate(`document.getElementById('head').innerHTML = ${JSON.stringify(EVIL)}`);
    await browser.evaluate(
      `document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.attacked = 3' }))`,
    );
    await browser.evaluate(`fetch('http://127.0.0.1:1/').catch((error) => String(error))`);
    expect(await browser.evaluate('typeof window.attacked')).toBe('undefined');
    expect(browser.messages.join('\n')).toContain('Content Security Policy');
  });

  test('shows 200 nodes, and a change of one of them', async () => {
    const { url, cluster } = await startPage(200);
    await browser.open(url);
    await until(`${textOf('nodes')}.includes('n200')`);
    await until(`document.querySelector('#nodes meter')`);
    cluster.nodes = cluster.nodes.map((node) => (node.name === 'n199' ? { ...node, health: 3 } : node));
    await until(`${textOf('nodes')}.includes('NotResponding')`);
    await picture('200-nodes', { width: 1440, height: 1800 });
  });
});

test('cluster explain --html writes a page that a browser shows without a script and without a connection', async () => {
  const cluster = await createFakeCluster(2);
  open.push(cluster);
  const path = join(PICTURES, 'explain.html');
  const { owner, files } = cluster.harness;
  await runExplainJoin(owner, 'n2', { html: '/owner/trace.html' });
  await writeFile(path, (await files.read('/owner/trace.html', 1_000_000))!);
  await browser.open(pathToFileURL(path).href);
  expect(await browser.evaluate(`document.querySelectorAll('svg circle').length`)).toBe(7);
  await picture('explain', { width: 1000, height: 700 });
  expect(browser.requested).toEqual([pathToFileURL(path).href]);
  expect(browser.messages).toEqual([]);
});
