import type { MessageInitShape } from '@bufbuild/protobuf';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import {
  type PreflightRequest,
  InitApi,
  type ClusterSpec,
  type InitEventSchema,
  type MachineCheckSchema,
} from '../../../initproto/gen/init_pb.js';
import { DEFAULT_KUBERNETES_VERSION, encodeManifest } from '../../../internal/bundle/index.ts';
import {
  atlsServerUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../../internal/atls/index.ts';
import { MachineKeyIssuer, proveKey } from '../../../internal/attestation/machinekey/index.ts';
import { OwnerKeyValidator } from '../../../internal/attestation/ownerkey/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { CodedError, defineErrors, fault } from '../../../internal/errors/index.ts';
import {
  createCaCertPem,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  operatorLeaf,
  pubKeyDerOf,
  verifyCertificateRequest,
} from '../../../internal/pki/index.ts';
import { implement, RpcServer, type Handlers } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { createMemoryLogger, opened } from '../../../internal/testing/index.ts';

const nodeErrors = defineErrors({
  'fake-other-cluster': fault.operator.precondition('taken', 'reset'),
});

/** The only blob in the bundle of these tests. */
export const BLOB = Buffer.from('etcd '.repeat(400_000));
export const BLOB_HASH = createHash('sha256').update(BLOB).digest('hex');
export const MANIFEST = encodeManifest({
  version: 1,
  name: `kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-amd64`,
  kubernetesVersion: DEFAULT_KUBERNETES_VERSION,
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

/** The key of a machine, and the evidence that it shows. */
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

/** A fake machine for the CLI: a job that continues when connections break, over real sockets. */
export class FakeNode implements AsyncDisposable {
  readonly inits: { readonly initId: string; readonly afterSequence: bigint }[] = [];
  readonly acknowledged: Uint8Array[] = [];
  readonly blobs = new Map<string, Buffer>();
  readonly uploadOffsets: number[] = [];
  /** The events of the job, in order. */
  script: Event[] = ['lock', 'consensus', 'node'].flatMap((phase): Event[] => [
    { case: 'phaseStarted', value: { phase } },
    { case: 'phaseFinished', value: { phase, durationMs: 1n, already: false } },
  ]);
  failure: Event | undefined;
  /** If set, the job ends only when this promise resolves, some time after its last phase. */
  hold: Promise<void> | undefined;
  /**
   * The connections to cut, in order: each entry is the number of events after which the node cuts the
   * connection.
   */
  cutsAfter: number[] = [];
  accepted: { readonly initId: string; readonly spec: ClusterSpec } | undefined;
  ownedBy = '';
  /** The curator endpoint in the result of the init. */
  curatorEndpoint = '127.0.0.1:9091';
  /** Called before an acknowledgement is answered; if it rejects, the acknowledgement stays unanswered. */
  onAcknowledged: () => Promise<void> = () => Promise.resolve();
  /** The preflight results of the machine, or the error with which preflight ends. */
  checks: readonly MessageInitShape<typeof MachineCheckSchema>[] | CodedError = [];
  /** The preflight requests that the machine received. */
  readonly preflights: PreflightRequest[] = [];
  /** How far the clock of the machine is ahead of the workstation’s clock. */
  aheadMs = 0;
  rpc!: RpcServer<AttestedPeer>;
  port = 0;
  apiPort = 0;
  fingerprint = '';
  /** Reported in the result. */
  nodeName = 'n1';
  readonly #owners = new Set<string>();
  readonly #sockets = new Set<Socket>();
  readonly #clusterCa = generateKeyPem();
  readonly #kubernetesCa = generateKeyPem();
  #authority: Promise<KeyCertificateSigner> | undefined;

  readonly machine = createMachine();

  static async start(ownerKeys: readonly string[]): Promise<FakeNode> {
    const node = new FakeNode();
    ownerKeys.forEach((key) => node.#owners.add(key));
    await node.#listen();
    return opened(node);
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Breaks every connection, as an unplugged cable does. */
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
        rules: () => REJECT_ALL_RULES,
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    });
    this.rpc = new RpcServer<AttestedPeer>({
      clock,
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

  clusterAuthority(): Promise<KeyCertificateSigner> {
    return (this.#authority ??= this.#signer(this.#clusterCa, 'cluster'));
  }

  async #signer(
    keyPem: ReturnType<typeof generateKeyPem>,
    commonName: string,
  ): Promise<KeyCertificateSigner> {
    const caPem = await createCaCertPem({ commonName, keyPem, nowMs: Date.now() });
    return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => Date.now() });
  }

  /** The part of the Kubernetes API that shows that the cluster is ready. */
  async #listenApi(_nowMs: number): Promise<void> {
    const keyPem = generateKeyPem();
    const signer = await this.#signer(this.#kubernetesCa, 'kubernetes');
    const certPem = await signer.issue({
      commonName: 'kube-apiserver',
      pubKeyDer: pubKeyDerOf(keyPem),
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
    opened({
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
      preflight: async (request) => {
        this.preflights.push(request);
        if (this.checks instanceof CodedError) throw this.checks;
        return { checks: [...this.checks] };
      },
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
        await this.onAcknowledged();
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
    const cluster = await this.clusterAuthority();
    const kubernetes = await this.#signer(this.#kubernetesCa, 'kubernetes');
    const bytes = (text: string): Uint8Array => Buffer.from(text);
    return {
      case: 'result',
      value: {
        clusterId: spec.clusterId,
        nodeId: 'node-1',
        nodeName: this.nodeName,
        clusterCaPem: bytes(cluster.caPem),
        ownerCertificatePem: bytes(
          await cluster.issue(
            operatorLeaf({
              clusterId: spec.clusterId,
              pubKeyDer: await verifyCertificateRequest(spec.ownerCsr),
              name: 'owner',
            }),
          ),
        ),
        kubernetesCaPem: bytes(kubernetes.caPem),
        kubernetesAdminCertificatePem: bytes(
          await kubernetes.issue({
            commonName: 'kubernetes-admin',
            pubKeyDer: await verifyCertificateRequest(spec.kubernetesAdminCsr),
            usages: ['client'],
            names: [],
            validDays: 1,
          }),
        ),
        apiEndpoints: [`127.0.0.1:${this.apiPort}`],
        curatorEndpoints: [this.curatorEndpoint],
        epoch: 1n,
      },
    };
  }
}
