import { spawn, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:https';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { createInterface } from 'node:readline';
import { cp } from 'node:fs/promises';
import { homedir } from 'node:os';
import { ExecaRunner } from '../../../internal/exec/index.ts';

const SOURCES = join(import.meta.dirname, '../../oidc-issuer');
const SEARCH_PATH = env['PATH'] ?? '';
const INSTALL_MS = 300_000;
const SECRET = 'secret-of-the-story';

/** A client that may get a token: the audience and the claims of its token. */
interface IssuerClient {
  readonly audience: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Address, certificate and clients of an issuer. */
interface IssuerOptions {
  /** The program, from `installIssuer()`. */
  readonly program: string;
  readonly host: string;
  readonly port: number;
  readonly certPem: string;
  readonly keyPem: string;
  /** By client ID. */
  readonly clients: Readonly<Record<string, IssuerClient>>;
}

/** Installs the issuer and its packages below a directory of the story. Returns its program. */
export async function installIssuer(directory: string): Promise<string> {
  const to = join(directory, 'oidc-issuer');
  await cp(SOURCES, to, { recursive: true });
  await new ExecaRunner({ path: SEARCH_PATH }).run({
    argv: ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'],
    cwd: to,
    env: { PATH: SEARCH_PATH, HOME: homedir() },
    timeoutMs: INSTALL_MS,
    signal: new AbortController().signal,
  });
  return join(to, 'issuer.mjs');
}

/** A real OpenID Connect issuer, which a story stops, and starts again with another key. */
export class OidcIssuer implements AsyncDisposable {
  readonly url: string;
  readonly #options: IssuerOptions;
  #signingKey = createSigningKey();
  #child: ChildProcess | undefined;

  private constructor(options: IssuerOptions) {
    this.#options = options;
    this.url = `https://${options.host}:${options.port}`;
  }

  static async start(options: IssuerOptions): Promise<OidcIssuer> {
    const issuer = new OidcIssuer(options);
    await issuer.start();
    return issuer;
  }

  async start(): Promise<void> {
    const { program: _, ...options } = this.#options;
    const child = spawn(execPath, [this.#options.program], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#child = child;
    child.stdin.write(`${JSON.stringify({ ...options, signingKey: this.#signingKey })}\n`);
    await once(createInterface({ input: child.stdout }), 'line');
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    const ended = once(child, 'exit');
    child.stdin?.end();
    await ended;
  }

  /** Signs with another key from now on, and publishes only that one. */
  async rotate(): Promise<void> {
    await this.stop();
    this.#signingKey = createSigningKey();
    await this.start();
  }

  /** A token of this client. */
  async token(clientId: string): Promise<string> {
    const { host, port } = this.#options;
    const authorization = `Basic ${Buffer.from(`${clientId}:${SECRET}`).toString('base64')}`;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' };
    const options = { host, port, path: '/token', method: 'POST', headers, rejectUnauthorized: false };
    const sent = request({ ...options, agent: false }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.on('end', () => resolve(body));
    });
    sent.once('error', reject);
    sent.end('grant_type=client_credentials');
    const body = await promise;
    const { access_token: token } = JSON.parse(body) as { readonly access_token?: string };
    if (token === undefined) throw new Error(`no token for ${clientId}: ${body}`);
    return token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

function createSigningKey(): object {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'ES256' };
}
