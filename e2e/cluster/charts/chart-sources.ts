import { once } from 'node:events';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { Registry } from '../harness/registry.ts';

const CACHE = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
const CHART = join(import.meta.dirname, '../../../cli/charts/hello');
const SEARCH_PATH = env['PATH'] ?? '';

/**
 * A real OCI registry and an HTTP repository with charts that the real helm packed. The registry does not
 * listen on loopback, because helm uses no TLS there by default.
 */
export class ChartSources implements AsyncDisposable {
  readonly registry: Registry;
  readonly repository: Repository;
  readonly #directory: string;

  private constructor(directory: string, registry: Registry, repository: Repository) {
    this.#directory = directory;
    this.registry = registry;
    this.repository = repository;
  }

  /** @param host an address of this machine */
  static async start(directory: string, host: string): Promise<ChartSources> {
    const published = join(directory, 'published');
    await mkdir(published);
    return new ChartSources(
      directory,
      await Registry.start(directory, host),
      await Repository.start(published),
    );
  }

  /** Packs the sample chart with this version. Returns the path of the archive. */
  async pack(version: string, directory = this.#directory): Promise<string> {
    await helm('package', CHART, '--version', version, '--destination', directory);
    return join(directory, `hello-${version}.tgz`);
  }

  async push(version: string): Promise<void> {
    await helm('push', await this.pack(version), `oci://${this.registry.address}/charts`, '--plain-http');
  }

  async publish(version: string): Promise<void> {
    const directory = join(this.#directory, 'published');
    await this.pack(version, directory);
    await helm('repo', 'index', directory, '--url', this.repository.url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.registry[Symbol.asyncDispose]();
    await this.repository.stop();
  }
}

/** Runs the helm of the bundle from the CLI's cache. */
export async function helm(...args: readonly string[]): Promise<string> {
  const bin = join(CACHE, 'bin');
  const name = (await readdir(bin)).find((each) => /^helm-[0-9a-f]{16}$/.test(each));
  if (name === undefined) throw new Error(`there is no helm in ${bin}`);
  const commands = new ExecaRunner({ path: SEARCH_PATH });
  const { signal } = new AbortController();
  const { stdout } = await commands.run({
    argv: [join(bin, name), ...args],
    env: { PATH: SEARCH_PATH, HOME: homedir() },
    timeoutMs: 60_000,
    signal,
  });
  return stdout;
}

/** An HTTP server for a directory that can delay the response for one path. */
class Repository {
  readonly requests: string[] = [];
  readonly #server: Server;
  #held: { readonly path: string; readonly asked: () => void; readonly go: Promise<void> } | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(directory: string): Promise<Repository> {
    const server = createServer((request, response) => {
      const path = request.url ?? '';
      repository.requests.push(path);
      const serve = async (): Promise<void> => {
        await repository.#wait(path);
        response.end(await readFile(join(directory, path)));
      };
      serve().catch(() => response.writeHead(404).end());
    });
    const repository = new Repository(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return repository;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Delays responses for `path` until `go` is called. `asked` resolves at the first request. */
  hold(path: string): { readonly asked: Promise<void>; readonly go: () => void } {
    const asked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    this.#held = { path, asked: asked.resolve, go: released.promise };
    return { asked: asked.promise, go: released.resolve };
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #wait(path: string): Promise<void> {
    if (this.#held?.path !== path) return;
    this.#held.asked();
    await this.#held.go;
  }
}
