import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { eventually } from './node-shell.ts';

/** The page that a running `cluster dashboard --web` serves, as the browser sees it that opened it first. */
export class DashboardPage implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #home: string;
  readonly #cookie: string;

  private constructor(child: ChildProcess, home: string, cookie: string) {
    this.#child = child;
    this.#home = home;
    this.#cookie = cookie;
  }

  /** Waits for the address of the page, and opens it with its token. @param child of `Harness.startCli` */
  static async open(child: ChildProcess): Promise<DashboardPage> {
    let printed = '';
    child.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    const find = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]+/.exec(printed)?.[0];
    const url = await eventually(
      'the address of the page',
      60,
      async () => find() ?? printed,
      (text) => text.startsWith('http'),
    );
    const opened = await fetch(url, { redirect: 'manual' });
    assert.equal(opened.status, 303);
    const [cookie = ''] = (opened.headers.get('set-cookie') ?? '').split(';');
    return new DashboardPage(child, new URL(opened.headers.get('location') ?? '', url).href, cookie);
  }

  /** The parts of the page by their IDs, each as HTML. */
  async parts(): Promise<Readonly<Record<string, string>>> {
    const answer = await this.ask('GET', 'data');
    return ((await answer.json()) as { parts: Readonly<Record<string, string>> }).parts;
  }

  /** Sends a request with the cookie of the browser. */
  ask(method: string, path: string): Promise<Response> {
    return fetch(new URL(path, this.#home), { method, headers: { cookie: this.#cookie } });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.exitCode !== null || !this.#child.kill('SIGTERM')) return;
    await ended;
  }
}
