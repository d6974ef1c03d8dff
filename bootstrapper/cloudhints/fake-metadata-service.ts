import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AskMetadata, createMetadataClient } from './ask-metadata.ts';

/** The answer of the service at a path: a text with status 200, or any response that the test writes. */
export type Answer = string | ((response: ServerResponse, headers: IncomingHttpHeaders) => void);
/** Answers by method and path ("GET /latest/meta-data/local-ipv4"). All other requests get 404. */
export type Answers = Readonly<Record<string, Answer>>;

/** A metadata service on the loopback address. */
export class FakeMetadataService implements AsyncDisposable {
  /** "METHOD PATH" of each request. */
  readonly requests: string[] = [];
  readonly #server;

  private constructor(answers: Answers) {
    this.#server = createServer((request, response) => {
      const asked = `${request.method} ${request.url}`;
      this.requests.push(asked);
      const answer = answers[asked];
      if (answer === undefined) response.writeHead(404).end('not found');
      else if (typeof answer === 'string') response.end(answer);
      else answer(response, request.headers);
    });
  }

  static async start(answers: Answers): Promise<FakeMetadataService> {
    const service = new FakeMetadataService(answers);
    await once(service.#server.listen(0, '127.0.0.1'), 'listening');
    return service;
  }

  client(signal: AbortSignal): AskMetadata {
    const { port } = this.#server.address() as AddressInfo;
    return createMetadataClient(signal, { host: '127.0.0.1', port });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve).closeAllConnections());
  }
}
