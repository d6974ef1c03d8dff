import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../clock/index.ts';
import { EtcdClient } from '../../etcd/index.ts';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../../pki/index.ts';
import type { TlsIdentity } from '../../rpc/index.ts';
import { findEtcdBinary } from './etcd-binary.ts';
import { findFreePort } from '../network/free-port.ts';
import { freezeProcess } from '../host/freeze-process.ts';

const YEAR = 365;
const SERVING_MS = 15_000;

/** One running member of a `TestEtcd`. */
export interface TestMember {
  readonly name: string;
  /** "127.0.0.1:PORT" for clients. */
  readonly endpoint: string;
  readonly peerUrl: string;
  readonly metricsUrl: string;
  /** Sends SIGKILL, like a power failure. */
  kill(): Promise<void>;
  /** Sends SIGTERM, for an orderly shutdown. */
  stop(): Promise<void>;
  /** Starts the same member again with its data. */
  restart(): Promise<void>;
  /** Freezes the process of the member. After this has resolved, it responds to no request. */
  freeze(): Promise<void>;
  thaw(): void;
}

interface ClientFiles extends TlsIdentity {
  readonly caPem: string;
}

/** A real etcd cluster on the loopback with its own CA, in a directory that is removed with it. */
export class TestEtcd implements AsyncDisposable {
  readonly #directory: string;
  readonly #binary: string;
  readonly #signer: KeyCertificateSigner;
  readonly #clients = new Map<string, TlsIdentity>();
  readonly #open: Disposable[] = [];
  readonly #running = new Set<ChildProcess>();

  private constructor(directory: string, binary: string, signer: KeyCertificateSigner) {
    this.#directory = directory;
    this.#binary = binary;
    this.#signer = signer;
  }

  static async create(): Promise<TestEtcd> {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-etcd-'));
    const keyPem = generateKeyPem();
    const nowMs = (): number => Date.now();
    const caPem = await createCaCertPem({ commonName: 'test etcd', keyPem, nowMs: nowMs() });
    await writeFile(join(directory, 'ca.crt'), caPem);
    return new TestEtcd(
      directory,
      await findEtcdBinary(directory),
      new KeyCertificateSigner({ caPem, keyPem, nowMs }),
    );
  }

  /** Starts a member: the first of a new cluster, or one that was added (`others`: peer URLs by name). */
  async startMember(
    name: string,
    others?: { readonly peerUrl: string; readonly members: Record<string, string> },
    options: { readonly quotaBytes?: number } = {},
  ): Promise<TestMember> {
    const [client, metrics] = [await findFreePort(), await findFreePort()];
    const peerUrl = others?.peerUrl ?? (await this.freePeerUrl());
    const files = await this.#serverFiles(name);
    const argv = [
      ...['--name', name, '--data-dir', join(this.#directory, name)],
      ...[
        '--listen-client-urls',
        `https://127.0.0.1:${client}`,
        '--advertise-client-urls',
        `https://127.0.0.1:${client}`,
      ],
      ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
      ...['--listen-metrics-urls', `http://127.0.0.1:${metrics}`],
      ...[
        '--initial-cluster',
        Object.entries({ ...others?.members, [name]: peerUrl })
          .map((each) => each.join('='))
          .join(','),
      ],
      ...['--initial-cluster-state', others === undefined ? 'new' : 'existing'],
      ...[
        '--cert-file',
        files.cert,
        '--key-file',
        files.key,
        '--trusted-ca-file',
        join(this.#directory, 'ca.crt'),
      ],
      ...[
        '--peer-cert-file',
        files.cert,
        '--peer-key-file',
        files.key,
        '--peer-trusted-ca-file',
        join(this.#directory, 'ca.crt'),
      ],
      ...[
        '--client-cert-auth',
        '--peer-client-cert-auth',
        '--enable-grpc-gateway=false',
        '--unsafe-no-fsync',
      ],
      ...(options.quotaBytes === undefined ? [] : [`--quota-backend-bytes=${options.quotaBytes}`]),
      ...['--heartbeat-interval', '50', '--election-timeout', '500', '--log-level', 'fatal'],
    ];
    let child = this.#spawn(argv);
    return {
      name,
      endpoint: `127.0.0.1:${client}`,
      peerUrl,
      metricsUrl: `http://127.0.0.1:${metrics}/metrics`,
      kill: () => this.#end(child, 'SIGKILL'),
      stop: () => this.#end(child, 'SIGTERM'),
      restart: async () => {
        await this.#end(child, 'SIGKILL');
        child = this.#spawn(argv);
      },
      freeze: () => freezeProcess(child.pid ?? NaN),
      thaw: () => void child.kill('SIGCONT'),
    };
  }

  async freePeerUrl(): Promise<string> {
    return `https://127.0.0.1:${await findFreePort()}`;
  }

  /** A certificate for `user`, always the same. */
  async clientFiles(user: string): Promise<ClientFiles> {
    const keyPem = generateKeyPem();
    const identity = this.#clients.get(user) ?? {
      keyPem,
      certPem: await this.#signer.issue({
        commonName: user,
        pubKeyDer: pubKeyDerOf(keyPem),
        usages: ['client'],
        names: [],
        validDays: YEAR,
      }),
    };
    this.#clients.set(user, identity);
    return { ...identity, caPem: this.#signer.caPem };
  }

  /** Connects a client that authenticates as `user`. It is closed together with this object. */
  async connect(user: string, ...endpoints: [string, ...string[]]): Promise<EtcdClient> {
    const { caPem, ...identity } = await this.clientFiles(user);
    const client = new EtcdClient({ endpoints, identity, serverCaPem: caPem, clock: new SystemClock() });
    this.#open.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#open.splice(0)) each[Symbol.dispose]();
    for (const child of this.#running) await this.#end(child, 'SIGKILL');
    await rm(this.#directory, { recursive: true, force: true });
  }

  #spawn(argv: readonly string[]): ChildProcess {
    const child = spawn(this.#binary, argv, { stdio: ['ignore', 'ignore', 'inherit'] });
    this.#running.add(child);
    return child;
  }

  async #end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
    this.#running.delete(child);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  async #serverFiles(name: string): Promise<{ readonly cert: string; readonly key: string }> {
    const keyPem = generateKeyPem();
    const certPem = await this.#signer.issue({
      commonName: name,
      pubKeyDer: pubKeyDerOf(keyPem),
      usages: ['server', 'client'],
      names: [
        { type: 'ip', value: '127.0.0.1' },
        { type: 'dns', value: 'localhost' },
      ],
      validDays: YEAR,
    });
    const at = { cert: join(this.#directory, `${name}.crt`), key: join(this.#directory, `${name}.key`) };
    await writeFile(at.cert, certPem);
    await writeFile(at.key, keyPem.reveal(), { mode: 0o600 });
    return at;
  }
}

/** Waits until a linearizable read succeeds. */
export async function untilServing(etcd: EtcdClient): Promise<void> {
  const signal = AbortSignal.timeout(SERVING_MS);
  for (;;) {
    try {
      return void (await etcd.get('ready', { signal, timeoutMs: 1_000 }));
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Error && 'retryable' in error && error.retryable === true)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
