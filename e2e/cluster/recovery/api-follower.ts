import type { IncomingMessage } from 'node:http';
import { request, type Agent } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { agentFromKubeconfig, connectToApi } from '../harness/api-counter.ts';

const PATH = '/api/v1/namespaces/default/configmaps';
/** An API server that sends nothing for this long is cut off, because objects change all the time in these stories. */
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
 * A client that follows ConfigMaps as controllers do. It lists once and then watches from its last version; after an error it
 * goes on at the next API server. It lists again only when a server reports that its version is too old.
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
  #attempts = 0;

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

  /** Whether the object exists according to the last list and the watch events since. */
  knows(name: string): boolean {
    return this.#names.has(name);
  }

  /**
   * One entry for each time a server refused to continue a watch (410 Gone), with its reason. After such a refusal
   * the follower lists again.
   */
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
        if (this.#version === undefined) await this.#relist();
        else await this.#watch(this.#version);
      } catch {
        this.#attempts++; // after any error, the watch continues from the same version at the next host
      }
      await delay(PAUSE_MS);
    }
  }

  async #relist(): Promise<void> {
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
    const host = this.#hosts[this.#attempts % this.#hosts.length];
    const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${version}`;
    return new Promise((resolve, reject) => {
      const url = `https://${host}:6443${PATH}?${query}`;
      const sent = request(url, { agent: this.#agent, timeout: SILENCE_MS, signal: this.#over.signal });
      sent.once('response', resolve);
      sent.once('timeout', () => sent.destroy(new Error('silence')));
      sent.once('error', reject);
      sent.end();
    });
  }
}
