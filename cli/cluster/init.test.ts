import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { createHash, createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpsServer } from 'node:https';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InitApi, type ClusterSpec, type InitEventSchema } from '../../initproto/gen/init_pb.js';
import { encodeManifest } from '../../internal/bundle/index.ts';
import {
  atlsServerUpgrade,
  INIT_CONTEXT,
  NO_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../internal/atls/index.ts';
import { MachineKeyIssuer, proveKey } from '../../internal/attestation/machinekey/index.ts';
import { OwnerKeyValidator } from '../../internal/attestation/ownerkey/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { ownershipStatement } from '../../internal/crypto/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { CodedError, defineErrors } from '../../internal/errors/index.ts';
import {
  createAuthorityPem,
  fingerprintOfKey,
  generateKeyPem,
  KeySigner,
  operatorLeaf,
  pubKeyOf,
  verifyRequest,
} from '../../internal/pki/index.ts';
import { implement, RpcServer, type Handlers } from '../../internal/rpc/index.ts';
import { createMemoryLogger, everyFault, FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import { DiskFiles, type FilePort, type FileStat } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { RecordingHost } from '../host/index.ts';
import { generateWorkspace, runInit, type InitOptions } from './index.ts';

const NONE = { kind: 'none' } as const;
const ROOT = '/desk';
const CACHE = '/cache';
const nodeErrors = defineErrors({
  'fake-other-cluster': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'taken',
    fix: 'reset',
  },
});

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** The blob that the bundle of these tests is made of. */
const BLOB = Buffer.from('etcd '.repeat(400_000));
const BLOB_HASH = createHash('sha256').update(BLOB).digest('hex');
const MANIFEST = encodeManifest({
  version: 1,
  name: 'kubernetes-v1.35.4-linux-amd64',
  kubernetesVersion: 'v1.35.4',
  architecture: 'amd64',
  components: [
    {
      name: 'etcd',
      version: '3.6.6',
      kind: 'binary',
      sha256: BLOB_HASH,
      sizeBytes: BLOB.length,
      source: 'here',
      scope: 'controlplane',
    },
  ],
});

type Event = NonNullable<MessageInitShape<typeof InitEventSchema>['event']>;

/** The key of a machine, and how it shows it. */
function createMachine() {
  const privKey = new Secret(generateKeyPairSync('ed25519').privateKey);
  const proveHere = (session: Uint8Array) => proveKey('cluster/init/key/v1', session, privKey);
  const { publicKey } = proveHere(new Uint8Array(64));
  return {
    issuers: [new MachineKeyIssuer({ privKey })] as const,
    fingerprint: fingerprintOfKey(publicKey),
    proveKey: proveHere,
  };
}

/** A machine that works like the real one as far as the CLI can see: a job that outlives connections, over real sockets. */
class FakeNode implements AsyncDisposable {
  readonly inits: { readonly initId: string; readonly afterSequence: bigint }[] = [];
  readonly acknowledged: Uint8Array[] = [];
  readonly blobs = new Map<string, Buffer>();
  readonly uploadOffsets: number[] = [];
  /** What the job does: events in order. `hold` ends each connection's stream after so many of them, without an end. */
  script: Event[] = ['lock', 'consensus', 'node'].flatMap((phase): Event[] => [
    { case: 'phaseStarted', value: { phase } },
    { case: 'phaseFinished', value: { phase, durationMs: 1n, already: false } },
  ]);
  failure: Event | undefined;
  /** The job takes this long after its last phase. */
  hold: Promise<void> | undefined;
  /** Cuts every connection after this many events, once for each entry. */
  cutsAfter: number[] = [];
  accepted: { readonly initId: string; readonly spec: ClusterSpec } | undefined;
  ownedBy = '';
  /** How far its clock is ahead of ours. */
  aheadMs = 0;
  rpc!: RpcServer<AttestedPeer>;
  port = 0;
  apiPort = 0;
  fingerprint = '';
  readonly #owners = new Set<string>();
  readonly #sockets = new Set<Socket>();
  readonly #clusterCa = generateKeyPem();
  readonly #kubernetesCa = generateKeyPem();

  readonly machine = createMachine();

  static async start(ownerKeys: readonly string[]): Promise<FakeNode> {
    const node = new FakeNode();
    ownerKeys.forEach((key) => node.#owners.add(key));
    await node.#listen();
    open.push(node);
    return node;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Ends every connection, as a cable does. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rpc.close(0);
  }

  async #listen(): Promise<void> {
    const { issuers, fingerprint } = this.machine;
    this.fingerprint = fingerprint;
    await this.#listenApi(Date.now());
    const clock = new SystemClock();
    const upgrade = atlsServerUpgrade({
      trust: {
        trust: 'mutual',
        shows: issuers,
        accepts: [
          new OwnerKeyValidator({ ownerKeys: [...this.#owners].map((key) => Buffer.from(key, 'base64')) }),
        ],
        rules: () => NO_RULES,
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    });
    this.rpc = new RpcServer<AttestedPeer>({
      upgrade: (socket, signal) => {
        this.#sockets.add(socket);
        return upgrade(socket, signal);
      },
      services: [implement(InitApi, this.#handlers())],
      disclose: 'chain',
      log: createMemoryLogger().log,
    });
    this.port = await this.rpc.listen('127.0.0.1', 0);
  }

  async #signer(keyPem: ReturnType<typeof generateKeyPem>, commonName: string): Promise<KeySigner> {
    const caPem = await createAuthorityPem({ commonName, keyPem, nowMs: Date.now() });
    return new KeySigner({ caPem, keyPem, nowMs: () => Date.now() });
  }

  /** The Kubernetes API, as far as "it is ready" goes. */
  async #listenApi(_nowMs: number): Promise<void> {
    const keyPem = generateKeyPem();
    const signer = await this.#signer(this.#kubernetesCa, 'kubernetes');
    const certPem = await signer.issue({
      commonName: 'kube-apiserver',
      pubKeyDer: pubKeyOf(keyPem),
      usages: ['server'],
      names: [{ type: 'ip', value: '127.0.0.1' }],
      validDays: 1,
    });
    const options = { key: keyPem.reveal(), cert: certPem, ca: signer.caPem, requestCert: true };
    const server = createHttpsServer(options, (request, response) => {
      response.statusCode = request.url === '/readyz' ? 200 : 404;
      response.end('ok');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.apiPort = (server.address() as AddressInfo).port;
    open.push({
      [Symbol.asyncDispose]: () =>
        new Promise((resolve) => {
          server.close(() => resolve());
          server.closeAllConnections();
        }),
    });
  }

  #handlers(): Handlers<typeof InitApi, AttestedPeer> {
    return {
      describe: async (_request, { peer }) => ({
        key: this.machine.proveKey(peer.session),
        agentVersion: '0.1.0',
        fingerprint: this.fingerprint,
        architecture: 'amd64',
        clusterId: this.accepted?.spec.clusterId ?? this.ownedBy,
        initId: this.accepted?.initId ?? '',
        nowMs: BigInt(Date.now() + this.aheadMs),
      }),
      readEnrolment: async () => ({ enrolment: new Uint8Array() }),
      answerChallenge: async () => ({ answer: new Uint8Array() }),
      statBlobs: async ({ sha256 }) => ({
        freeBytes: 1n << 40n,
        blobs: sha256.map((hash) => {
          const bytes = this.blobs.get(hash)?.length ?? 0;
          return { sha256: hash, complete: bytes === BLOB.length, partialBytes: BigInt(bytes) };
        }),
      }),
      uploadBlob: (requests) => this.#receive(requests),
      init: (request) => this.#stream(request.initId, request.afterSequence, request.spec),
      acknowledge: async ({ initId, ownershipSignature }) => {
        if (initId !== this.accepted?.initId)
          throw new CodedError(nodeErrors, 'fake-other-cluster', 'acknowledging');
        this.acknowledged.push(ownershipSignature);
        return {};
      },
    };
  }

  async #receive(requests: Parameters<Handlers<typeof InitApi, AttestedPeer>['uploadBlob']>[0]) {
    let hash = '';
    for await (const { part } of requests) {
      if (part.case === 'start') {
        hash = part.value.sha256;
        this.uploadOffsets.push(Number(part.value.offset));
      } else if (part.case === 'chunk') {
        this.blobs.set(hash, Buffer.concat([this.blobs.get(hash) ?? Buffer.alloc(0), part.value]));
        const limit = this.cutsAfter[0];
        if (limit !== undefined && (this.blobs.get(hash)?.length ?? 0) > limit) {
          this.cutsAfter.shift();
          this.cut();
        }
      }
    }
    return { complete: this.blobs.get(hash)?.length === BLOB.length };
  }

  async *#stream(initId: string, afterSequence: bigint, spec: ClusterSpec | undefined) {
    this.inits.push({ initId, afterSequence });
    if (this.accepted !== undefined && this.accepted.initId !== initId) {
      throw new CodedError(nodeErrors, 'fake-other-cluster', 'accepting the init');
    }
    if (spec === undefined) throw new Error('no spec');
    this.accepted ??= { initId, spec };
    const cutAfter = this.cutsAfter.shift();
    for (const [index, event] of this.script.entries()) {
      const sequence = BigInt(index + 1);
      if (sequence <= afterSequence) continue;
      yield { sequence, timeMs: 1n, event };
      if (cutAfter !== undefined && Number(sequence) >= cutAfter) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        this.cut();
        await new Promise(() => undefined);
      }
    }
    await this.hold;
    yield { event: this.failure ?? (await this.#result(spec)) };
  }

  async #result(spec: ClusterSpec): Promise<Event> {
    const cluster = await this.#signer(this.#clusterCa, 'cluster');
    const kubernetes = await this.#signer(this.#kubernetesCa, 'kubernetes');
    const bytes = (text: string): Uint8Array => Buffer.from(text);
    return {
      case: 'result',
      value: {
        clusterId: spec.clusterId,
        nodeId: 'node-1',
        nodeName: 'n1',
        clusterCaPem: bytes(cluster.caPem),
        ownerCertificatePem: bytes(
          await cluster.issue(
            operatorLeaf({
              clusterId: spec.clusterId,
              pubKeyDer: await verifyRequest(spec.ownerCsr),
              name: 'owner',
            }),
          ),
        ),
        kubernetesCaPem: bytes(kubernetes.caPem),
        kubernetesAdminCertificatePem: bytes(
          await kubernetes.issue({
            commonName: 'kubernetes-admin',
            pubKeyDer: await verifyRequest(spec.kubernetesAdminCsr),
            usages: ['client'],
            names: [],
            validDays: 1,
          }),
        ),
        apiEndpoints: [`127.0.0.1:${this.apiPort}`],
        curatorEndpoints: ['127.0.0.1:9091'],
        epoch: 1n,
      },
    };
  }
}

/** TCP in between that can go silent without a close. */
class StallingProxy implements AsyncDisposable {
  readonly #server = createServer((near) => this.#pair(near));
  readonly #pairs = new Set<Socket>();
  readonly #port: number;
  stalled = false;

  constructor(port: number) {
    this.#port = port;
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    open.push(this);
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The pairs of now go silent; later ones work. */
  stall(): void {
    for (const socket of this.#pairs) socket.unpipe().pause();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#pairs) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pair(near: Socket): void {
    const far = connect(this.#port, '127.0.0.1');
    for (const socket of [near, far]) {
      this.#pairs.add(socket);
      socket.on('error', () => undefined);
    }
    near.pipe(far).on('close', () => near.destroy());
    far.pipe(near).on('close', () => far.destroy());
  }
}

/** Pauses between two tries are shorter. What waits longer is a limit, and a busy machine must not reach those. */
const SHORTEST_LIMIT_MS = 5_000;

/** Pauses are short, limits come sooner; real sockets need real time to move. */
class HastyClock extends SystemClock {
  override async sleep(ms: number, signal: AbortSignal): Promise<void> {
    await super.sleep(ms < SHORTEST_LIMIT_MS ? ms / 50 : ms / 4, signal);
  }
}

const asProcess = async (files: MemoryFiles, startTicks: number): Promise<void> => {
  await files.makeDirectory('/proc/self');
  await files.makeDirectory('/proc/sys/kernel/random');
  await files.makeDirectory('/etc');
  const stat = `77 (node (x)) S ${Array(18).fill('0').join(' ')} ${startTicks} 0`;
  await files.writeAtomic('/proc/self/stat', stat);
  await files.writeAtomic('/proc/sys/kernel/random/boot_id', 'boot-1');
  await files.writeAtomic('/etc/machine-id', 'machine-1');
};

function contextOf(
  files: FilePort,
  signal = new AbortController().signal,
): CommandContext & { readonly host: RecordingHost } {
  return {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock: new HastyClock() },
    paths: { cache: CACHE, data: '/data', config: '/config', workspace: ROOT },
    env: { USER: 'me' },
    signal,
  };
}

async function prepareWorkspace(files: MemoryFiles): Promise<string> {
  await asProcess(files, 1);
  await files.makeDirectory(`${CACHE}/bundles`);
  await files.writeAtomic(`${CACHE}/bundles/kubernetes-v1.35.4-linux-amd64.json`, MANIFEST);
  const { ownerKey } = await generateWorkspace(contextOf(files), { name: 'prod' });
  return ownerKey.pubKeyBase64;
}

async function start(): Promise<{ files: MemoryFiles; node: FakeNode; options: InitOptions }> {
  const files = new MemoryFiles();
  const node = await FakeNode.start([await prepareWorkspace(files)]);
  node.blobs.set(BLOB_HASH, BLOB);
  return { files, node, options: { node: node.endpoint, fingerprint: node.fingerprint, charts: NONE } };
}

const kubeconfigOf = async (files: FilePort): Promise<string> =>
  Buffer.from((await files.read(`${ROOT}/kubeconfig`, 1e6)) ?? '').toString('utf8');

const stateOf = async (
  files: FilePort,
): Promise<{
  init?: {
    stage: string;
    request?: unknown;
    result?: { clusterCaPem: string; epoch: string; clusterId: string };
  };
}> =>
  JSON.parse(Buffer.from((await files.read(`${ROOT}/state.json`, 1e7)) ?? '{}').toString('utf8')) as never;

describe('runInit()', () => {
  test('goes from an empty workspace to a kubeconfig, and signs for the cluster', async () => {
    const { files, node, options } = await start();
    const context = contextOf(files);
    const summary = await runInit(context, options);
    expect(summary).toMatchObject({ clusterName: 'prod', nodeName: 'n1', unchanged: false });
    expect(context.host.codes).toEqual([
      'init-connect',
      'init-verify',
      'init-machine-verified',
      'init-machine-warning',
      'init-upload',
      'init-uploaded',
      'init-phase-lock',
      'init-phase-consensus',
      'init-phase-node',
      'init-acknowledge',
      'init-api',
    ]);
    const { init } = await stateOf(files);
    expect(init).toMatchObject({ stage: 'acknowledged' });
    expect(init?.request).toBeUndefined();
    expect((await files.stat(`${ROOT}/kubeconfig`))?.mode).toBe(0o600);
    const result = init?.result ?? { clusterId: '', clusterCaPem: '', epoch: '0' };
    const pubKey = createPublicKey(
      Buffer.from((await files.read(`${ROOT}/owner-key.pem`, 1e4)) ?? '').toString(),
    );
    const statement = ownershipStatement({ ...result, epoch: BigInt(result.epoch) });
    expect(verify(undefined, statement, pubKey, node.acknowledged[0] ?? new Uint8Array())).toBe(true);
  });

  const HOUR_MS = 3_600_000;
  test.each([
    { name: 'two hours ahead', aheadMs: 2 * HOUR_MS, says: '2 h ahead of ours' },
    { name: 'a year behind', aheadMs: -365 * 24 * HOUR_MS, says: '365 d behind ours' },
  ])(
    'refuses a machine whose clock is $name before anything is sent, and goes on once it is set',
    async ({ aheadMs, says }) => {
      const { files, node, options } = await start();
      node.aheadMs = aheadMs;
      const refused = runInit(contextOf(files), options);
      await expect(refused).rejects.toThrow(says);
      await expect(refused).rejects.toMatchObject({ code: 'cluster-clocks-differ', exit: 'clock' });
      expect([node.inits, node.uploadOffsets]).toEqual([[], []]);
      node.aheadMs = 4 * 60_000;
      await expect(runInit(contextOf(files), options)).resolves.toMatchObject({ unchanged: false });
    },
  );

  test('says on the second run that nothing was changed, and asks the machine for nothing', async () => {
    const { files, node, options } = await start();
    const first = await runInit(contextOf(files), options);
    await node[Symbol.asyncDispose]();
    const again = await runInit(contextOf(files), options);
    expect(again).toEqual({ ...first, unchanged: true });
  });

  test('makes a kubeconfig anew that was lost, with the same key', async () => {
    const { files, options } = await start();
    await runInit(contextOf(files), options);
    const before = await kubeconfigOf(files);
    await files.remove(`${ROOT}/kubeconfig`);
    const context = contextOf(files);
    expect(await runInit(context, options)).toMatchObject({ unchanged: true });
    expect(await kubeconfigOf(files)).toBe(before);
    expect(context.host.codes).toContain('init-kubeconfig-restored');
  });

  test('with its state and kubeconfig lost goes on with the same init and gets the same access', async () => {
    const { files, node, options } = await start();
    await runInit(contextOf(files), options);
    const before = await kubeconfigOf(files);
    for (const name of ['kubeconfig', 'state.json']) await files.remove(`${ROOT}/${name}`);
    expect(await runInit(contextOf(files), options)).toMatchObject({ clusterName: 'prod', nodeName: 'n1' });
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
    const [key, keyBefore] = [await kubeconfigOf(files), before].map(
      (text) => /client-key-data: .*/.exec(text)?.[0],
    );
    expect(key).toBe(keyBefore);
    expect(key).toMatch(/: .{100}/);
  });

  test('attaches again after each cut and shows every phase once', async () => {
    const { files, node, options } = await start();
    node.cutsAfter = [1, 2, 3, 5];
    const context = contextOf(files);
    await runInit(context, options);
    expect(node.inits.map(({ afterSequence }) => afterSequence)).toEqual([0n, 1n, 2n, 3n, 5n]);
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
    expect(context.host.codes.filter((code) => code.startsWith('init-phase'))).toEqual([
      'init-phase-lock',
      'init-phase-consensus',
      'init-phase-node',
    ]);
  });

  test('leaves a connection that went silent without a close, and attaches again', async () => {
    const { files, node, options } = await start();
    const proxy = new StallingProxy(node.port);
    const endpoint = await proxy.listen();
    const working = Promise.withResolvers<void>();
    node.hold = working.promise;
    const running = runInit(contextOf(files), { ...options, node: endpoint });
    while (node.inits.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    proxy.stall();
    working.resolve();
    await running;
    expect(node.inits.length).toBeGreaterThan(1);
  });

  test('names what neither the machine nor this workstation has', async () => {
    const { node, options, files } = await start();
    node.blobs.clear();
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-bundle-missing',
      details: { absent: ['etcd'] },
    });
    expect(node.inits).toHaveLength(0);
  });

  test('uploads what the machine lacks, and after a cut goes on from the byte that arrived', async () => {
    const { node, options, files } = await start();
    const cache = await mkdtemp(join(tmpdir(), 'cluster-upload-'));
    await using _remove = { [Symbol.asyncDispose]: () => rm(cache, { recursive: true }) };
    await mkdir(join(cache, 'blobs', 'sha256'), { recursive: true });
    await writeFile(join(cache, 'blobs', 'sha256', BLOB_HASH), BLOB);
    node.blobs.clear();
    node.cutsAfter = [700_000];
    const context = contextOf(new SplitFiles(files, cache));
    await runInit({ ...context, paths: { ...context.paths, cache } }, options);
    expect(node.blobs.get(BLOB_HASH)?.equals(BLOB)).toBe(true);
    expect(node.uploadOffsets[0]).toBe(0);
    expect(node.uploadOffsets[1]).toBeGreaterThan(600_000);
  });

  test('shows the code, message and fix of a failed phase, with the exit code of its catalogue', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: {
        code: 'file-no-space',
        message: 'writing /x',
        fix: 'free it',
        retryable: true,
        phase: 'images',
      },
    };
    const failed = runInit(contextOf(files), options);
    await expect(failed).rejects.toMatchObject({
      code: 'file-no-space',
      exit: 'diskFull',
      retryable: true,
      fix: 'free it',
    });
    node.failure = undefined;
    await expect(runInit(contextOf(files), options)).resolves.toMatchObject({ unchanged: false });
    expect(new Set(node.inits.map(({ initId }) => initId)).size).toBe(1);
  });

  const refusals = [
    {
      name: 'an owner key that the machine does not know',
      change: async (files: MemoryFiles) => {
        const { ownerKey } = await generateOther();
        await files.writeAtomic(`${ROOT}/owner-key.pem`, ownerKey);
      },
      want: { code: 'cluster-owner-refused', exit: 'refused' },
    },
    {
      name: 'another machine than the one whose fingerprint was named',
      options: { fingerprint: `sha256:${'0'.repeat(64)}` },
      want: { code: 'cluster-other-machine', exit: 'refused' },
    },
    {
      name: 'a machine without a known fingerprint, where nobody can be asked',
      options: { fingerprint: undefined },
      want: { code: 'cluster-no-fingerprint', exit: 'usage' },
    },
    {
      name: 'a machine of another cluster',
      node: (node: FakeNode) => void (node.ownedBy = 'ff'),
      want: { code: 'cluster-machine-taken', details: { clusterId: 'ff' } },
    },
    {
      name: 'an unknown version of Kubernetes',
      options: { kubernetesVersion: 'v1.2.3' },
      want: { code: 'bundle-version-unknown' },
    },
    {
      name: 'a version whose bundle is not here',
      options: { kubernetesVersion: 'v1.34.4' },
      want: { code: 'cluster-bundle-missing', exit: 'preflight' },
    },
    {
      name: 'a chart that does not exist',
      options: { charts: { kind: 'only', name: 'x' } as const },
      want: { code: 'charts-unknown' },
    },
  ];
  test.each(refusals)(
    'refuses $name before the machine was asked to do anything',
    async ({ change, node: tweak, options: other, want }) => {
      const { files, node, options } = await start();
      tweak?.(node);
      await change?.(files);
      await expect(runInit(contextOf(files), { ...options, ...other })).rejects.toMatchObject(want);
      expect(node.inits).toHaveLength(0);
      expect((await stateOf(files)).init).toBeUndefined();
    },
  );

  test('keeps to the machine an init was begun with', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    const other = { ...options, fingerprint: `sha256:${'1'.repeat(64)}` };
    await expect(runInit(contextOf(files), other)).rejects.toMatchObject({ code: 'cluster-other-machine' });
  });

  test('refuses to go on with a changed configuration once the machine has accepted', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    await files.writeAtomic(
      `${ROOT}/cluster.yaml`,
      'version: 1\nname: other\nattestation: {variants: [machine-key], firstContact: fingerprint}\n',
    );
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-config-changed',
    });
  });

  test('goes on with the bundle that the init was begun with when it has been made anew since', async () => {
    const { files, node, options } = await start();
    node.failure = {
      case: 'failure',
      value: { code: 'file-io', message: '', fix: '', retryable: true, phase: 'lock' },
    };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({ code: 'file-io' });
    const before = node.accepted?.spec.bundleManifest;
    const path = `${CACHE}/bundles/kubernetes-v1.35.4-linux-amd64.json`;
    const text = Buffer.from((await files.read(path, 1e6)) ?? []).toString();
    await files.writeAtomic(path, text.replace('3.6.6', '3.6.7'));
    node.failure = undefined;
    const context = contextOf(files);
    await runInit(context, options);
    expect(context.host.codes).toContain('init-bundle-kept');
    expect(node.accepted?.spec.bundleManifest).toEqual(before);
  });

  test('does not keep a result whose certificates are for other keys, and leaves no file of it behind (row 69)', async () => {
    const { files, node, options } = await start();
    node.failure = { case: 'result', value: { clusterId: 'wrong' } };
    await expect(runInit(contextOf(files), options)).rejects.toMatchObject({
      code: 'cluster-result-invalid',
    });
    expect((await stateOf(files)).init?.stage).toBe('requested');
    expect([await files.stat(`${ROOT}/kubeconfig`), node.acknowledged]).toEqual([undefined, []]);
  });

  test('says at Ctrl-C what goes on and how to attach again', async () => {
    const { files, node, options } = await start();
    const stopping = new AbortController();
    const working = Promise.withResolvers<void>();
    node.hold = working.promise;
    const context = contextOf(files, stopping.signal);
    const running = runInit(context, options);
    while (node.inits.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    stopping.abort(new Error('SIGINT'));
    await expect(running).rejects.toThrow('SIGINT');
    working.resolve();
    expect(context.host.codes).toContain('init-detached');
    expect((await files.list(ROOT)).includes('.lock')).toBe(false);
  });

  test('understands the workspace after a crash before and after every single write', async () => {
    const seen = new Set<string>();
    const disks = new Map<MemoryFiles, FakeNode>();
    const pending: MemoryFiles[] = [];
    const cases = everyFault({
      faults: ['crash-before', 'crash-after'],
      prepare: async (disk) => {
        const node = await FakeNode.start([await prepareWorkspace(disk)]);
        node.blobs.set(BLOB_HASH, BLOB);
        disks.set(disk, node);
        pending.push(disk);
      },
      run: async (files) => {
        const node = disks.get(pending.at(-1) ?? new MemoryFiles());
        if (node === undefined) throw new Error('no node');
        await runInit(contextOf(files), { node: node.endpoint, fingerprint: node.fingerprint, charts: NONE });
      },
    });
    for await (const { disk, name } of cases) {
      const node = disks.get(disk);
      if (node === undefined) throw new Error('no node');
      await asProcess(disk, 2); // the process of the crash is gone
      const summary = await runInit(contextOf(disk), {
        node: node.endpoint,
        fingerprint: node.fingerprint,
        charts: NONE,
      });
      expect({ name, clusterName: summary.clusterName }).toEqual({ name, clusterName: 'prod' });
      expect(new Set(node.inits.map(({ initId }) => initId)).size).toBeLessThanOrEqual(1);
      expect((await stateOf(disk)).init?.stage).toBe('acknowledged');
      seen.add(name.replace(/\.lock\..*$/, '.lock'));
    }
    expect([...seen].filter((name) => name.includes('state.json'))).toHaveLength(2);
    expect(seen.size).toBeGreaterThanOrEqual(6);
  }, 240_000);
});

/** The workspace in memory, the cache on the disk: blobs are streamed from there. */
class SplitFiles extends DiskFiles {
  readonly #memory: MemoryFiles;
  readonly #cache: string;

  constructor(memory: MemoryFiles, cache: string) {
    super();
    this.#memory = memory;
    this.#cache = cache;
  }

  override read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    if (path.startsWith(join(this.#cache, 'bundles'))) return Promise.resolve(MANIFEST);
    return this.#memory.read(path, maxBytes);
  }

  override stat(path: string): Promise<FileStat | undefined> {
    return path.startsWith(this.#cache) ? super.stat(path) : this.#memory.stat(path);
  }

  override writeAtomic(...args: Parameters<FilePort['writeAtomic']>): Promise<void> {
    return this.#memory.writeAtomic(...args);
  }

  override createExclusive(...args: Parameters<FilePort['createExclusive']>): Promise<boolean> {
    return this.#memory.createExclusive(...args);
  }

  override makeDirectory(path: string): Promise<void> {
    return this.#memory.makeDirectory(path);
  }

  override remove(path: string): Promise<void> {
    return this.#memory.remove(path);
  }

  override rename(from: string, to: string): Promise<void> {
    return this.#memory.rename(from, to);
  }

  override list(path: string): Promise<readonly string[]> {
    return this.#memory.list(path);
  }
}

async function generateOther(): Promise<{ ownerKey: string }> {
  const files = new MemoryFiles();
  await prepareWorkspace(files);
  return { ownerKey: Buffer.from((await files.read(`${ROOT}/owner-key.pem`, 1e4)) ?? '').toString() };
}
