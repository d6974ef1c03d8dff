import type { IncomingMessage } from 'node:http';
import { request, type Agent } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { agentFromKubeconfig, connectToApi } from '../harness/api-counter.ts';

const PATH = '/api/v1/namespaces/default/configmaps';
/** Something changes all the time in these stories: who is silent for so long is cut off. */
const SILENCE_MS = 10_000;
const PAUSE_MS = 300;
const GONE = 410;

interface ConfigMap {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}
interface Listed {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly ConfigMap[];
}
interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: ConfigMap & { readonly code?: number; readonly message?: string };
}

/**
 * A client that follows ConfigMaps as controllers do: lists once, then watches from where it is, whatever breaks, at
 * whichever API server answers. It reads again only when it is told that what it knows is too old.
 */
export class ApiFollower implements AsyncDisposable {
  readonly #over = new AbortController();
  readonly #agent: Agent;
  readonly #list: () => Promise<Listed>;
  readonly #hosts: readonly string[];
  readonly #names = new Set<string>();
  readonly #refusals: string[] = [];
  readonly #work: Promise<void>;
  #version: string | undefined;
  #turn = 0;

  private constructor(agent: Agent, list: () => Promise<Listed>, hosts: readonly string[]) {
    this.#agent = agent;
    this.#list = list;
    this.#hosts = hosts;
    this.#work = this.#follow();
  }

  static async of(kubeconfigFile: string, hosts: readonly string[]): Promise<ApiFollower> {
    const api = await connectToApi(kubeconfigFile, hosts);
    return new ApiFollower(
      await agentFromKubeconfig(kubeconfigFile),
      async () => (await api('GET', PATH)) as Listed,
      hosts,
    );
  }

  /** What it believes to be there. */
  knows(name: string): boolean {
    return this.#names.has(name);
  }

  /** Why it read again, each time. */
  get refusals(): readonly string[] {
    return this.#refusals;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#work;
    this.#agent.destroy();
  }

  async #follow(): Promise<void> {
    while (!this.#over.signal.aborted) {
      try {
        if (this.#version === undefined) await this.#readAnew();
        else await this.#watch(this.#version);
      } catch {
        this.#turn++; // whatever the reason: the next one, from where we are
      }
      await delay(PAUSE_MS);
    }
  }

  async #readAnew(): Promise<void> {
    const { metadata, items } = await this.#list();
    this.#names.clear();
    for (const { metadata: item } of items) this.#names.add(item.name);
    this.#version = metadata.resourceVersion;
  }

  async #watch(version: string): Promise<void> {
    const response = await this.#open(version);
    let text = '';
    for await (const chunk of response) {
      text += String(chunk);
      if (response.statusCode !== 200) continue;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) if (!this.#take(JSON.parse(line) as WatchEvent)) return;
    }
    if (response.statusCode === GONE) this.#refuse(text);
    else if (response.statusCode !== 200) throw new Error(`${response.statusCode}`);
  }

  #take({ type, object }: WatchEvent): boolean {
    if (type === 'ERROR') {
      if (object.code === GONE) this.#refuse(object.message ?? '');
      return false;
    }
    const { name, resourceVersion } = object.metadata;
    if (type === 'DELETED') this.#names.delete(name);
    else if (type !== 'BOOKMARK') this.#names.add(name);
    this.#version = resourceVersion;
    return true;
  }

  #refuse(why: string): void {
    this.#refusals.push(why.slice(0, 200));
    this.#version = undefined;
  }

  #open(version: string): Promise<IncomingMessage> {
    const host = this.#hosts[this.#turn % this.#hosts.length];
    const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${version}`;
    return new Promise((resolve, reject) => {
      const url = `https://${host}:6443${PATH}?${query}`;
      const asking = request(url, { agent: this.#agent, timeout: SILENCE_MS, signal: this.#over.signal });
      asking.once('response', resolve);
      asking.once('timeout', () => asking.destroy(new Error('silence')));
      asking.once('error', reject);
      asking.end();
    });
  }
}
