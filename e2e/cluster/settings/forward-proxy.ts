import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** An HTTP proxy on this machine (RFC 9112 section 3.2.2) that knows names which nothing else resolves. */
export class ForwardProxy implements AsyncDisposable {
  /** The URL for clients. */
  readonly url: string;
  /** The URLs that were requested, in order. */
  readonly requests: string[] = [];
  readonly #server: Server;
  readonly #hosts: Readonly<Record<string, string>>;

  private constructor(server: Server, hosts: Readonly<Record<string, string>>) {
    const { address, port } = server.address() as AddressInfo;
    this.url = `http://${address}:${port}`;
    this.#server = server;
    this.#hosts = hosts;
    server.on('request', (asked, response) => this.#forward(asked, response));
  }

  /**
   * @param address of this machine
   * @param hosts name in a URL → "HOST:PORT" of the server that has it
   */
  static async start(address: string, hosts: Readonly<Record<string, string>>): Promise<ForwardProxy> {
    const server = createServer();
    server.listen(0, address);
    await once(server, 'listening');
    return new ForwardProxy(server, hosts);
  }

  #forward(asked: IncomingMessage, response: ServerResponse): void {
    const url = asked.url ?? '';
    this.requests.push(url);
    const { host, pathname, search } = new URL(url, this.url);
    const server = this.#hosts[host];
    if (server === undefined) {
      response.writeHead(502).end(`${host} is not known here`);
      return;
    }
    const forwarded = request(
      {
        ...hostOf(server),
        method: asked.method,
        path: `${pathname}${search}`,
        headers: { ...asked.headers, host },
      },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    forwarded.once('error', () => response.destroy());
    asked.pipe(forwarded);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function hostOf(server: string): { readonly host: string; readonly port: string } {
  const { hostname: host, port } = new URL(`http://${server}`);
  return { host, port };
}
