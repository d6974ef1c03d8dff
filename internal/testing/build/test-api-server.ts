import { spawn, type ChildProcess } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { generateKeyPem } from '../../pki/index.ts';
import type { TlsIdentity } from '../../rpc/index.ts';
import type { TestEtcd } from '../etcd/test-etcd.ts';
import { findFreePort } from '../network/free-port.ts';
import { programOfBundle } from './bundle-program.ts';

const READY_MS = 90_000;
const POLL_MS = 200;
const MAX_OUTPUT = 20_000;

/** A request to an API server. */
export interface ApiRequest extends Pick<
  RequestOptions,
  'method' | 'headers' | 'minVersion' | 'maxVersion' | 'ciphers'
> {
  /** The certificate of the caller; undefined: none. */
  readonly identity?: TlsIdentity | undefined;
  /** Sent as JSON. */
  readonly body?: object | undefined;
}

/** A real API server of the newest bundle, on a free port of the loopback, with a real etcd. */
export class TestApiServer implements AsyncDisposable {
  readonly port: number;
  readonly #program: string;
  readonly #directory: string;
  readonly #etcdEndpoint: string;
  #process: ChildProcess | undefined;
  /** The end of the output of the API server, for error messages. */
  output = '';

  private constructor(program: string, directory: string, at: { etcdEndpoint: string; port: number }) {
    this.#program = program;
    this.#directory = directory;
    this.#etcdEndpoint = at.etcdEndpoint;
    this.port = at.port;
  }

  /**
   * Unpacks the program, and writes its credentials for etcd. Does not start it.
   * @param directory gets `etcd-ca.crt`, `etcd.crt`, `etcd.key` and, later, `serving/`
   */
  static async create(directory: string, etcd: TestEtcd, etcdEndpoint: string): Promise<TestApiServer> {
    const { caPem, certPem, keyPem } = await etcd.clientFiles('apiserver');
    await writeFile(join(directory, 'etcd-ca.crt'), caPem);
    await writeFile(join(directory, 'etcd.crt'), certPem);
    await writeFile(join(directory, 'etcd.key'), keyPem.reveal(), { mode: 0o600 });
    const program = await programOfBundle('kube-apiserver', directory);
    return new TestApiServer(program, directory, { etcdEndpoint, port: await findFreePort() });
  }

  /** The running process. */
  get process(): ChildProcess {
    if (this.#process === undefined) throw new TypeError('called before start()');
    return this.#process;
  }

  /**
   * Starts the API server with these flags, and with the flags for etcd and for its port. Waits until it is ready for
   * this caller.
   */
  async start(flags: readonly string[], caller?: TlsIdentity): Promise<void> {
    const at = (name: string): string => join(this.#directory, name);
    const own = [
      `--etcd-servers=https://${this.#etcdEndpoint}`,
      `--etcd-cafile=${at('etcd-ca.crt')}`,
      `--etcd-certfile=${at('etcd.crt')}`,
      `--etcd-keyfile=${at('etcd.key')}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.port}`,
      `--cert-dir=${at('serving')}`,
      '--service-cluster-ip-range=10.96.0.0/16',
    ];
    const child = spawn(this.#program, [...own, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#process = child;
    for (const stream of [child.stdout, child.stderr])
      stream.on(
        'data',
        (part: Buffer) => (this.output = (this.output + part.toString('utf8')).slice(-MAX_OUTPUT)),
      );
    const endMs = Date.now() + READY_MS;
    const isReady = () =>
      this.ask('/readyz', { identity: caller }).then(
        ({ status }) => status === 200,
        () => false,
      );
    while (!(await isReady())) {
      if (child.exitCode !== null || Date.now() > endMs)
        throw new Error(`the API server is not ready: ${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /**
   * Starts the API server with RBAC, accounts and one administrator.
   * @returns the administrator's token, and the path of a kubeconfig with it
   */
  async startForAdmin(): Promise<{ readonly token: string; readonly kubeconfig: string }> {
    const at = (name: string): string => join(this.#directory, name);
    const [token, kubeconfig] = ['admin-of-the-test', at('kubeconfig')];
    const key = createPrivateKey(generateKeyPem().reveal()).export({ type: 'sec1', format: 'pem' });
    await writeFile(at('sa.key'), key, { mode: 0o600 });
    await writeFile(at('tokens.csv'), `${token},admin,1,system:masters\n`, { mode: 0o600 });
    await this.start([
      ...['--authorization-mode=RBAC', `--token-auth-file=${at('tokens.csv')}`],
      '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
      ...[`--service-account-key-file=${at('sa.key')}`, `--service-account-signing-key-file=${at('sa.key')}`],
    ]);
    const server = `https://127.0.0.1:${this.port}`;
    const access = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
      clusters: [{ name: 'test', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'admin', user: { token } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    };
    await writeFile(kubeconfig, JSON.stringify(access), { mode: 0o600 });
    return { token, kubeconfig };
  }

  /** Kills the API server, which can be started again. */
  async stop(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Sends a request without checking the certificate of the server. */
  async ask(
    path: string,
    { identity, body, method = body === undefined ? 'GET' : 'POST', headers, ...tls }: ApiRequest = {},
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    const options: RequestOptions = {
      ...{ host: '127.0.0.1', port: this.port, path, method, agent: false, rejectUnauthorized: false },
      ...(identity === undefined ? {} : { cert: identity.certPem, key: identity.keyPem.reveal() }),
      ...tls,
      headers: { 'content-type': 'application/json', ...headers },
    };
    const sent = request(options, (response) => {
      let text = '';
      response.on('data', (part: Buffer) => (text += part.toString('utf8')));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
    return promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
