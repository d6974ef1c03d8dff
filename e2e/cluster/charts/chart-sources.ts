import { once } from 'node:events';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { DEFAULT_KUBERNETES_VERSION } from '../../../internal/bundle/index.ts';
import { openBundleCache, type BuildContext } from '../../../internal/bundlebuild/index.ts';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { createBuildContext } from '../../build-context.ts';
import { Registry } from '../harness/registry.ts';

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

/** Runs the helm of the bundle. */
export async function helm(...args: readonly string[]): Promise<string> {
  const { signal } = new AbortController();
  const context = createBuildContext({ signal, say: () => undefined });
  return runHelm(await helmOfBundle(context), args, signal);
}

/** Runs a helm program. */
export async function runHelm(
  program: string,
  args: readonly string[],
  signal: AbortSignal,
  input?: string,
): Promise<string> {
  const commands = new ExecaRunner({ path: SEARCH_PATH });
  const { stdout } = await commands.run({
    argv: [program, ...args],
    env: { PATH: SEARCH_PATH, HOME: homedir() },
    ...(input !== undefined && { input }),
    timeoutMs: 60_000,
    signal,
  });
  return stdout;
}

/** The CLI keeps a copy of the helm of each bundle that it has used. */
async function helmOfBundle(context: BuildContext): Promise<string> {
  const { architecture } = context.machine;
  const { components } = await openBundleCache(context).read(DEFAULT_KUBERNETES_VERSION, architecture);
  const { sha256 = '' } = components.find(({ name }) => name === 'helm') ?? {};
  return join(context.cache, 'bin', `helm-${sha256.slice(0, 16)}`);
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
