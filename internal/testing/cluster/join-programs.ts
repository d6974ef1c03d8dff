import { spawn, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { access, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { JOIN_CONTEXT } from '../../atls/index.ts';
import { createEvidenceSocketServer } from '../../atls/evidencesocket/index.ts';
import { MachineKeyIssuer } from '../../attestation/machinekey/index.ts';
import { SystemClock } from '../../clock/index.ts';
import { DiskFiles } from '../../file/index.ts';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../../pki/index.ts';
import { Secret } from '../../secret/index.ts';
import { watchedKey } from '../etcd/watched-key.ts';
import { findFreePort } from '../network/free-port.ts';
import { tapGrpc, type TappedMessage } from '../network/grpc-tap.ts';
import { joinConfigurations } from './join-configurations.ts';
import { createMemoryLogger } from '../memory-logger.ts';
import type { TestCluster } from './test-cluster.ts';
import { TestOwner } from './test-owner.ts';
import type { TestEtcd, TestMember } from '../etcd/test-etcd.ts';

const ROOT = join(import.meta.dirname, '../../../joinservice');
const LONGEST_START_MS = 120_000;
const clock = new SystemClock();

export type ProgramName = 'joinservice' | 'signer';

/** The processes and files that must exist before the programs start. */
export interface JoinEnvironment {
  readonly etcd: TestEtcd;
  readonly member: TestMember;
  readonly cluster: TestCluster;
  /** The files in the signer's key ring besides the two CAs. */
  readonly keyNames: readonly string[];
  /**
   * Keys and prefixes of etcd that the join service watches from its start on; a key occurs once for each
   * watch.
   */
  readonly follows: readonly string[];
}

/** A message between one of the programs and etcd, or between the programs. */
export interface RecordedMessage extends TappedMessage {
  /** The program that sent the request. */
  readonly by: ProgramName;
  readonly to: 'etcd' | 'signer';
}

/**
 * Runs the join service and the signer as real processes, with a real etcd. All messages to etcd and
 * between the programs pass through this class, and a test can kill each program at any message.
 */
export class JoinPrograms implements AsyncDisposable {
  readonly endpoint: string;
  /** Called for each message, except for those that start a watch. `false` drops the message. */
  onMessage: (message: RecordedMessage) => boolean = () => true;
  readonly #directory: string;
  readonly #running = new Map<ProgramName, ChildProcess>();
  readonly #open: (() => Promise<unknown>)[] = [];
  readonly #signed: string[] = [];
  readonly #port: number;
  readonly #toFollow: readonly string[];
  #followed: string[] = [];

  private constructor(directory: string, port: number, follows: readonly string[]) {
    this.#directory = directory;
    this.#port = port;
    this.#toFollow = follows.toSorted();
    this.endpoint = `127.0.0.1:${port}`;
  }

  static async create(directory: string, world: JoinEnvironment): Promise<JoinPrograms> {
    const programs = new JoinPrograms(directory, await findFreePort(), world.follows);
    await programs.#writeFiles(world);
    await Promise.all((['joinservice', 'signer'] as const).map((name) => programs.#compile(name)));
    await Promise.all((['joinservice', 'signer'] as const).map((name) => programs.start(name)));
    return programs;
  }

  /** The node ids for which the signer has signed, one per signature. */
  get signed(): readonly string[] {
    return this.#signed;
  }

  /** The keys that the current run of the join service watches, sorted. */
  get followed(): readonly string[] {
    return this.#followed.toSorted();
  }

  /** Sends SIGKILL: the program does nothing from now on. Resolves when the process has ended. */
  async kill(name: ProgramName): Promise<void> {
    const child = this.#running.get(name);
    this.#running.delete(name);
    if (child === undefined) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /**
   * Starts the program as systemd would. Resolves when it serves and its initial reads are done. The port
   * is open before these reads have ended, and a test could mistake them for reads of a request.
   */
  async start(name: ProgramName): Promise<void> {
    const socket = this.#at('signer-own.sock');
    if (name === 'signer') await rm(socket, { force: true });
    if (name === 'joinservice') this.#followed = [];
    const child = this.#spawn(name, `${name}.json`);
    child.stdout?.setEncoding('utf8').on('data', (lines: string) => {
      for (const [, node = ''] of lines.matchAll(/"signed for a node".*?"node":"([^"]+)"/g))
        this.#signed.push(node);
    });
    this.#running.set(name, child);
    const over = new AbortController();
    const ended = once(child, 'exit').then(([code]) => {
      over.abort(new Error(`${name} has ended`));
      if (this.#running.get(name) === child) throw new Error(`${name} ended by itself: ${String(code)}`);
    });
    const serves = until(() => (name === 'signer' ? access(socket) : this.#isAtRest()), over.signal);
    await Promise.race([serves, ended]);
  }

  async #isAtRest(): Promise<void> {
    await connectable(this.#port);
    if (this.#followed.length < this.#toFollow.length)
      throw new Error(`follows ${this.followed.join(' ')}; still to come: ${this.#toFollow.join(' ')}`);
  }

  #overhear(message: RecordedMessage): boolean {
    const key = message.direction === 'request' ? watchedKey(message.body) : undefined;
    if (key === undefined) return this.onMessage(message);
    this.#followed.push(key);
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of [...this.#running.keys()]) await this.kill(name);
    for (const close of this.#open.reverse()) await close();
  }

  /**
   * A killed program does not write its compile cache. One run that ends normally writes it, which halves
   * the time of each later start.
   */
  async #compile(name: ProgramName): Promise<void> {
    await once(this.#spawn(name, 'no-such-file'), 'exit');
  }

  #spawn(name: ProgramName, configuration: string): ChildProcess {
    const main = name === 'signer' ? 'signer/main.ts' : 'main.ts';
    return spawn(execPath, [join(ROOT, main), this.#at(configuration)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...env, NODE_COMPILE_CACHE: this.#at('compiled') },
    });
  }

  #at(name: string): string {
    return join(this.#directory, name);
  }

  async #writeFiles({ etcd, member, cluster, keyNames }: JoinEnvironment): Promise<void> {
    const { privateKey } = generateKeyPairSync('ed25519');
    const roles = ['ConsensusMember', 'KubernetesController'] as const;
    const node = await cluster.addNode('first', { roles: [...roles] }, privateKey);
    await this.#showEvidence(privateKey);
    const { port, files } = await this.#tapEtcd(etcd, member);
    await this.#tapSigner();
    const kubernetesKey = generateKeyPem();
    const nowMs = clock.nowMs();
    const contents = {
      ...Object.fromEntries(keyNames.map((name) => [name, `text of ${name}`])),
      ...files,
      'node.crt': node.tls.certPem,
      'node.key': node.tls.keyPem.reveal(),
      'cluster-ca.crt': cluster.authority.caPem,
      'cluster-ca.key': cluster.authority.keyPem.reveal(),
      'kubernetes-ca.crt': await createCaCertPem({ commonName: 'k', keyPem: kubernetesKey, nowMs }),
      'kubernetes-ca.key': kubernetesKey.reveal(),
    };
    const nodeId = node.identity.kind === 'node' ? node.identity.nodeId : '';
    const etcdAt = { endpoint: `127.0.0.1:${port}`, metricsUrl: member.metricsUrl };
    const { joinservice, signer } = await joinConfigurations({
      at: (name) => this.#at(name),
      clusterId: cluster.clusterId,
      nodeId,
      joinPort: this.#port,
      ownerKey: Buffer.from(new TestOwner({ clock, clusterId: cluster.clusterId }).pubKey).toString('base64'),
      etcdAt,
    });
    const all = {
      ...contents,
      'joinservice.json': JSON.stringify(joinservice),
      'signer.json': JSON.stringify(signer),
    };
    for (const [name, text] of Object.entries(all)) await writeFile(this.#at(name), text, { mode: 0o600 });
  }

  async #showEvidence(privKey: KeyObject): Promise<void> {
    const evidence = await createEvidenceSocketServer({
      path: this.#at('evidence.sock'),
      context: JOIN_CONTEXT,
      issuers: [new MachineKeyIssuer({ privKey: new Secret(privKey) })],
      files: new DiskFiles(),
      clock,
      log: createMemoryLogger().log,
    });
    this.#open.push(() => Promise.resolve(evidence[Symbol.asyncDispose]()));
  }

  /** A proxy of etcd with its own CA, which records the messages and forwards them to the real etcd. */
  async #tapEtcd(etcd: TestEtcd, member: TestMember) {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'tap', keyPem, nowMs: clock.nowMs() });
    const ca = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs() });
    const issue = async (commonName: string, usage: 'server' | 'client') => {
      const own = generateKeyPem();
      const names = [
        { type: 'ip', value: '127.0.0.1' },
        { type: 'dns', value: 'localhost' },
      ] as const;
      const leaf = { commonName, pubKeyDer: pubKeyDerOf(own), usages: [usage] as const, names, validDays: 1 };
      return { cert: await ca.issue(leaf), key: own.reveal() };
    };
    const own = await issue('tap', 'server');
    const upstream = await etcd.clientFiles('root');
    const [host, etcdPort] = member.endpoint.split(':');
    const options = { ...own, ca: caPem, requestCert: true, ALPNProtocols: ['h2'] };
    const server = createTlsServer(options, (client: TLSSocket) => {
      const by = client.getPeerCertificate().subject.CN === 'signer' ? 'signer' : 'joinservice';
      const real = connectTls({
        host,
        port: Number(etcdPort),
        ca: upstream.caPem,
        cert: upstream.certPem,
        key: upstream.keyPem.reveal(),
        ALPNProtocols: ['h2'],
      });
      tapGrpc(client, real, (message) => this.#overhear({ ...message, by, to: 'etcd' }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#open.push(() => closed(server));
    const files: Record<string, string> = { 'etcd-ca.crt': caPem };
    for (const name of ['joinservice', 'signer']) {
      const client = await issue(name, 'client');
      files[`etcd-${name}.crt`] = client.cert;
      files[`etcd-${name}.key`] = client.key;
    }
    return { port: (server.address() as { readonly port: number }).port, files };
  }

  async #tapSigner(): Promise<void> {
    const server = createServer((client) => {
      const real = connect({ path: this.#at('signer-own.sock') });
      tapGrpc(client, real, (message) => this.onMessage({ ...message, by: 'joinservice', to: 'signer' }));
    });
    server.listen({ path: this.#at('signer.sock') });
    await once(server, 'listening');
    this.#open.push(() => closed(server));
  }
}

/** Closes the server. The programs have ended, so no open connection delays this. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

async function connectable(port: number): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    await once(socket, 'connect');
  } finally {
    socket.destroy();
  }
}

/**
 * Repeats the attempt for as long as the program runs, because the duration of a start depends on the
 * machine. The limit only guards against hanging.
 */
async function until(attempt: () => Promise<unknown>, over: AbortSignal): Promise<void> {
  const longestMs = clock.monotonicMs() + LONGEST_START_MS;
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (clock.monotonicMs() > longestMs) throw error;
      await clock.sleep(20, over);
    }
  }
}
