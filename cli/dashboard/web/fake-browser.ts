import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BROWSER = 'chromium-headless-shell';

/** A real browser without a window, by the Chrome DevTools Protocol. Dispose it after the test. */
export interface Browser extends AsyncDisposable {
  /** Opens a page, and returns once it is loaded. */
  open(url: string): Promise<void>;
  /** The value of a JavaScript expression in the page, which may be a promise. */
  evaluate<T>(expression: string): Promise<T>;
  /** A picture of the whole page as PNG. */
  screenshot(size: {
    readonly width: number;
    readonly height: number;
    readonly isDark?: boolean;
  }): Promise<Uint8Array>;
  /** Addresses that the page has requested, and what its console said. */
  readonly requested: readonly string[];
  readonly messages: readonly string[];
}

interface Reply {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

/** Starts the browser. @throws Error if this machine has none: `npm run browser` installs it */
export async function startBrowser(): Promise<Browser> {
  const profile = await mkdtemp(join(tmpdir(), 'browser-'));
  const flags = ['--no-sandbox', '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'];
  const child = spawn(BROWSER, flags, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, HOME: profile },
  });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`starting ${BROWSER}: run \`npm run browser\``, { cause: error });
  });
  const port = await Promise.race([portFrom(child.stderr), failed]);
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
    readonly type: string;
    readonly webSocketDebuggerUrl: string;
  }[];
  const socket = new WebSocket(targets.find(({ type }) => type === 'page')!.webSocketDebuggerUrl);
  await once(socket, 'open');
  const requested: string[] = [];
  const messages: string[] = [];
  const pending = new Map<number, PromiseWithResolvers<Record<string, unknown>>>();
  let loaded = Promise.withResolvers<void>();
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params, result, error } = JSON.parse(String(data)) as Reply;
    if (id !== undefined) {
      if (error === undefined) pending.get(id)?.resolve(result ?? {});
      else pending.get(id)?.reject(new Error(error.message));
    }
    if (method === 'Page.loadEventFired') loaded.resolve();
    if (method === 'Network.requestWillBeSent') requested.push((params?.['request'] as { url: string }).url);
    if (
      method === 'Runtime.consoleAPICalled' ||
      method === 'Log.entryAdded' ||
      method === 'Runtime.exceptionThrown'
    )
      messages.push(JSON.stringify(params));
  });
  let last = 0;
  const call = (method: string, params: object = {}): Promise<Record<string, unknown>> => {
    const id = ++last;
    const reply = Promise.withResolvers<Record<string, unknown>>();
    pending.set(id, reply);
    socket.send(JSON.stringify({ id, method, params }));
    return reply.promise;
  };
  for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await call(`${domain}.enable`);
  return {
    requested,
    messages,
    open: async (url) => {
      loaded = Promise.withResolvers();
      await call('Page.navigate', { url });
      await loaded.promise;
    },
    evaluate: async <T>(expression: string): Promise<T> => {
      const reply = await call('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
      if (reply['exceptionDetails'] !== undefined) throw new Error(JSON.stringify(reply['exceptionDetails']));
      return (reply['result'] as { value: T }).value;
    },
    screenshot: async ({ width, height, isDark = false }) => {
      const size = { width, height, deviceScaleFactor: 1, mobile: false };
      await call('Emulation.setDeviceMetricsOverride', size);
      const features = [{ name: 'prefers-color-scheme', value: isDark ? 'dark' : 'light' }];
      await call('Emulation.setEmulatedMedia', { features });
      const { data } = await call('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
      return Buffer.from(data as string, 'base64');
    },
    [Symbol.asyncDispose]: async () => {
      socket.close();
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The browser writes the port that it has chosen to its standard error. */
async function portFrom(stderr: AsyncIterable<Buffer>): Promise<string> {
  let text = '';
  for await (const chunk of stderr) {
    text += String(chunk);
    const port = /DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)\//.exec(text)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error(`${BROWSER} ended: ${text}`);
}
