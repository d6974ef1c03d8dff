import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A web server on the loopback with files in memory, range requests, and the faults of real servers. */
export class FileServer implements AsyncDisposable {
  readonly files = new Map<string, Uint8Array>();
  /** The requests as `METHOD path range`, in the order of arrival. */
  readonly asked: string[] = [];
  /** Path → number of bytes after which the connection is cut, once. */
  readonly cuts = new Map<string, number>();
  /** Path → status that the server returns instead of the file. */
  readonly statuses = new Map<string, number>();
  /** False: the server does not support range requests. */
  ranges = true;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(): Promise<FileServer> {
    const server = new FileServer();
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '/';
    const range = request.headers.range ?? '';
    this.asked.push([request.method, path, range].join(' ').trimEnd());
    const status = this.statuses.get(path);
    const file = this.files.get(path);
    if (status !== undefined || file === undefined) {
      response.writeHead(status ?? 404).end();
      return;
    }
    const start = this.ranges ? Number(/^bytes=(\d+)-$/.exec(range)?.[1] ?? 0) : 0;
    if (start >= file.length && start > 0) {
      response.writeHead(416).end();
      return;
    }
    const rest = file.subarray(start);
    const part = start > 0 ? { 'content-range': `bytes ${start}-${file.length - 1}/${file.length}` } : {};
    response.writeHead(start > 0 ? 206 : 200, { 'content-length': rest.length, ...part });
    this.#send(path, rest, response);
  }

  #send(path: string, bytes: Uint8Array, response: ServerResponse): void {
    const cut = this.cuts.get(path);
    if (cut === undefined) {
      response.end(bytes);
      return;
    }
    this.cuts.delete(path);
    response.write(bytes.subarray(0, cut), () => response.destroy());
  }
}
