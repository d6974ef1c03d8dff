import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  type KeyObject,
} from 'node:crypto';
import { atlsServerUpgrade, RotatingKeys, type AttestedPeer, JOIN_CONTEXT } from '../../atls/index.ts';
import {
  decodeEnrolmentRequest,
  encryptForTpm,
  endorsementKeyIdOf,
  verifyEndorsement,
  type EnrolmentRequest,
} from '../../attestation/enrolment/index.ts';
import { CertificateCache } from '../../attestation/x509/index.ts';
import { MachineKeyIssuer, MachineKeyValidator, verifyKeyProof } from '../../attestation/machinekey/index.ts';
import { encodeManifest } from '../../bundle/index.ts';
import type { Clock } from '../../clock/index.ts';
import {
  diskShareAnswer,
  encodeDiskShareStatement,
  joinServerStatement,
  ownershipStatement,
  seal,
} from '../../crypto/index.ts';
import { signDocument, type DocumentBodies, type DocumentContent } from '../../ownerdocument/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  type CertificateSigner,
  nodeIdOf,
  nodeLeaf,
  pubKeyDerOf,
  spkiDerOf,
  verifyCertificateRequest,
} from '../../pki/index.ts';
import { implement, RpcServer, type Handlers } from '../../rpc/index.ts';
import { Secret } from '../../secret/index.ts';
import { createMemoryLogger } from '../memory-logger.ts';
import {
  Join,
  type DiskShareSchema,
  type Fact,
  type IssueDiskShareRequest,
  type KeyProof,
  type TicketKeys,
} from '../../../joinservice/joinproto/gen/join_pb.js';

type JoinHandlers = Handlers<typeof Join, AttestedPeer>;
type Admission = ReturnType<JoinHandlers['requestAdmission']>;

/** The behaviour of a fake cluster; all of it can change while the cluster serves. */
export interface FakeClusterBehaviour {
  /** The decision after Hello; the default admits the machine at once. */
  decide: (nodeId: string, signal: AbortSignal) => Admission;
  /** Called before a ticket is returned. It may throw, to lose or refuse the ticket after it was issued. */
  onTicket: (nodeId: string) => Promise<void>;
  roles: readonly string[];
  taints: readonly { readonly key: string; readonly value: string; readonly effect: string }[];
  /**
   * The CA that signs the kubelets' client certificates, if it is not the Kubernetes CA, and the CA
   * certificate that is announced for it.
   */
  kubernetesClients: { readonly signer?: CertificateSigner; readonly believedPem: string };
  nowMs: () => number;
  /** The settings in a ticket, and the documents in which an owner has signed them. */
  settings: () => { readonly settings: Uint8Array; readonly ownerDocuments: Uint8Array[] };
  /** The documents in which an owner has signed rotated keys. */
  keyDocuments: readonly Uint8Array[];
  /** The replacement of the CA that the owner of the cluster has signed, and the documents that prove it. */
  replacement: { readonly currentCaPem: string; readonly ownerDocuments: Uint8Array[] };
  /** Whether the responding node has a control-plane certificate. */
  isControlPlane: boolean;
  /** Whether attested TLS accepts the evidence of machines. */
  acceptsEvidence: boolean;
  /** Called before the cluster proves itself. It may throw. */
  beforeProof: () => Promise<void>;
  /** The answer to a request for a disk share in a session. */
  diskShare: (
    request: IssueDiskShareRequest,
    session: Uint8Array,
  ) => Promise<MessageInitShape<typeof DiskShareSchema>>;
}

export interface FakeClusterOptions {
  /** The address on which the cluster listens, and which its single node reports. */
  readonly host: string;
  /** The private Ed25519 key of the cluster’s owner. */
  readonly ownerKey: KeyObject;
}

interface TestAuthority {
  readonly signer: KeyCertificateSigner;
  readonly keyPem: Secret<string>;
}

/**
 * A working join service of a cluster with real keys, certificates and attested TLS, but without records;
 * for tests only.
 */
export class FakeCluster implements AsyncDisposable {
  readonly clusterId: string;
  readonly owner: { readonly publicKey: KeyObject; readonly privateKey: KeyObject };
  readonly behaviour: FakeClusterBehaviour;
  /** How often a membership was issued to each node, by node id. */
  readonly minted = new Map<string, number>();
  readonly said: string[] = [];
  /** The facts that a machine reported in the latest Hello that this cluster received. */
  facts: readonly Fact[] = [];
  endpoint = '';
  /** The address of the single node of this cluster. */
  readonly #host: string;
  readonly #node = generateKeyPairSync('ed25519');
  readonly #ca: KeyCertificateSigner;
  readonly #caKeyPem: Secret<string>;
  readonly #kubernetesCa: KeyCertificateSigner;
  readonly #server: RpcServer<AttestedPeer>;

  private constructor(
    [ca, kubernetesCa]: readonly [TestAuthority, TestAuthority],
    { clock, host, ownerKey, clusterId }: { readonly clock: Clock; clusterId?: string } & FakeClusterOptions,
  ) {
    this.clusterId = clusterId ?? randomBytes(16).toString('hex');
    this.#ca = ca.signer;
    this.#caKeyPem = ca.keyPem;
    this.#kubernetesCa = kubernetesCa.signer;
    this.#host = host;
    this.owner = { privateKey: ownerKey, publicKey: createPublicKey(ownerKey) };
    this.behaviour = {
      decide: (nodeId) => this.admitted(nodeId),
      onTicket: () => Promise.resolve(),
      roles: ['KubernetesWorker'],
      taints: [],
      kubernetesClients: { believedPem: '' },
      nowMs: () => clock.nowMs(),
      settings: () => this.signedSettings(FAKE_SETTINGS),
      keyDocuments: [],
      replacement: { currentCaPem: '', ownerDocuments: [] },
      isControlPlane: true,
      acceptsEvidence: true,
      beforeProof: () => Promise.resolve(),
      diskShare: () => Promise.reject(new Error('the test gives no disk share')),
    };
    this.#server = new RpcServer<AttestedPeer>({
      clock,
      upgrade: atlsServerUpgrade({
        trust: {
          trust: 'mutual',
          shows: [new MachineKeyIssuer({ privKey: new Secret(this.#node.privateKey) })],
          accepts: [new MachineKeyValidator({ fingerprints: 'any' })],
          rules: () => ({
            policy: {
              ...{ version: 'test', registers: new Map() },
              machines: this.behaviour.acceptsEvidence ? 'any' : new Set<string>(),
            },
            collateral: {},
          }),
        },
        context: JOIN_CONTEXT,
        keys: new RotatingKeys({ clock }),
        clock,
      }),
      services: [implement(Join, this.#handlers())],
      disclose: 'code',
      log: createMemoryLogger().log,
      maxConnections: 16,
    });
  }

  static async start(clock: Clock, place: Partial<FakeClusterOptions> = {}): Promise<FakeCluster> {
    const { host = '127.0.0.1', ownerKey = generateKeyPairSync('ed25519').privateKey } = place;
    const nowMs = (): number => clock.nowMs();
    const [ca, kubernetesCa] = await Promise.all(
      ['cluster', 'kubernetes'].map(async (commonName) => {
        const keyPem = generateKeyPem();
        const caPem = await createCaCertPem({ commonName, keyPem, nowMs: nowMs() });
        return { signer: new KeyCertificateSigner({ caPem, keyPem, nowMs }), keyPem };
      }),
    );
    if (ca === undefined || kubernetesCa === undefined) throw new TypeError('two authorities');
    const cluster = new FakeCluster([ca, kubernetesCa], { clock, host, ownerKey });
    cluster.endpoint = `${host}:${await cluster.#server.listen(host, 0)}`;
    return cluster;
  }

  /** Starts a second control plane of this cluster. */
  async startSecond(clock: Clock): Promise<FakeCluster> {
    const ca = { signer: this.#ca, keyPem: this.#caKeyPem };
    const kubernetesCa = { signer: this.#kubernetesCa, keyPem: this.#caKeyPem };
    const at = { clock, host: this.#host, ownerKey: this.owner.privateKey, clusterId: this.clusterId };
    const second = new FakeCluster([ca, kubernetesCa], at);
    second.endpoint = `${this.#host}:${await second.#server.listen(this.#host, 0)}`;
    return second;
  }

  /** The id of the responding node. */
  get nodeId(): string {
    return nodeIdOf(spkiDerOf(this.#node.publicKey));
  }

  /** Raw Ed25519 public key of the owner. */
  get ownerKey(): Uint8Array {
    return spkiDerOf(this.owner.publicKey).subarray(-32);
  }

  get caPem(): string {
    return this.#ca.caPem;
  }

  /** Signs with the key of the cluster CA, as the signer does for an answer that is no certificate. */
  signAsCa(statement: Uint8Array): Uint8Array {
    const key = { key: createPrivateKey(this.#caKeyPem.reveal()), dsaEncoding: 'ieee-p1363' } as const;
    return new Uint8Array(sign('sha256', statement, key));
  }

  /** The answer of a signer to a request for a disk share, encrypted for the TPM in the request or for another one. */
  diskShareFor(
    request: IssueDiskShareRequest,
    session: Uint8Array,
    given: { readonly share: Uint8Array; readonly enrolled?: EnrolmentRequest; readonly by?: FakeCluster },
  ) {
    const { uuid, enrolment, timeMs } = request;
    const { share, enrolled = decodeEnrolmentRequest(enrolment), by = this } = given;
    const said = { clusterId: this.clusterId, uuid, enrolment, session, timeMs: Number(timeMs) };
    const pinnedKeys = new Set([endorsementKeyIdOf(enrolled.endorsementKey)]);
    const trust = { roots: new Set<string>(), authorities: [], pinnedKeys };
    const endorsement = verifyEndorsement(enrolled, { cache: new CertificateCache(), nowMs: 0, trust });
    const box = encryptForTpm(new Secret(share), endorsement, session);
    const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
    const envelope = {
      challenge: bytes(box.challenge),
      nonce: bytes(box.nonce),
      ciphertext: bytes(box.ciphertext),
    };
    return {
      ...envelope,
      signature: by.signAsCa(diskShareAnswer(encodeDiskShareStatement(said), envelope)),
    };
  }

  /** Settings with the signature of an owner over them. @param over other members of the document */
  signedSettings(
    value: object,
    { by = this.owner.privateKey, ...over }: Partial<DocumentContent<'settings'>> & { by?: KeyObject } = {},
  ) {
    const settings = Buffer.from(JSON.stringify(value), 'utf8');
    const keyPem = pemOf(by);
    const issuedMs = this.behaviour.nowMs();
    const content = {
      ...({ kind: 'settings', clusterId: this.clusterId, epoch: 1, serial: 1 } as const),
      ...{ issuedMs, endsMs: issuedMs + 60_000 },
      body: { settingsSha256: createHash('sha256').update(settings).digest('hex') },
      ...over,
    };
    return { settings, ownerDocuments: [signDocument(content, keyPem)] };
  }

  /** The signature of an owner over a generation of keys. */
  keysDocument(body: DocumentBodies['keys'], by: KeyObject = this.owner.privateKey): Uint8Array {
    const issuedMs = this.behaviour.nowMs();
    const content = {
      ...({ kind: 'keys', clusterId: this.clusterId, epoch: 1, serial: 1 } as const),
      ...{ issuedMs, endsMs: issuedMs + 60_000, body },
    };
    return signDocument(content, pemOf(by));
  }

  /** The first `owners` document: the owner of this cluster makes another key the only owner. */
  ownersDocument(next: KeyObject): Uint8Array {
    const issuedMs = this.behaviour.nowMs();
    const key = Buffer.from(spkiDerOf(next).subarray(-32)).toString('base64');
    const content = {
      ...({ kind: 'owners', clusterId: this.clusterId, epoch: 1, serial: 1 } as const),
      ...{ issuedMs, endsMs: issuedMs + 60_000, body: { keys: [key] } },
    };
    return signDocument(content, pemOf(this.owner.privateKey));
  }

  async *admitted(nodeId: string): Admission {
    yield {
      event: {
        case: 'admitted',
        value: { joinId: nodeId, nodeName: 'w1', roles: [...this.behaviour.roles], expiresMs: 0n },
      },
    };
    await Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close(0);
  }

  #handlers(): JoinHandlers {
    const { said } = this;
    const cluster = this as FakeCluster;
    return {
      requestAdmission: async function* (requests, { peer, signal }) {
        said.push('introduce');
        await cluster.behaviour.beforeProof();
        yield { event: { case: 'cluster', value: await cluster.#introduce(peer.session) } };
        const first = await requests[Symbol.asyncIterator]().next();
        if (first.done === true || first.value.message.case !== 'hello') return;
        said.push('hello');
        cluster.facts = first.value.message.value.facts;
        yield* cluster.behaviour.decide(nodeIdFrom(first.value.message.value.key, peer), signal);
      },
      issueJoinTicket: async ({ key, keys }, { peer }) => {
        said.push('join ticket');
        return cluster.#ticket(nodeIdFrom(key, peer), key, keys);
      },
      issueRejoinTicket: async ({ key, keys }, { peer }) => {
        said.push('rejoin ticket');
        return cluster.#ticket(nodeIdFrom(key, peer), key, keys);
      },
      issueDiskShare: (request, { peer }) => {
        said.push('disk share');
        return cluster.behaviour.diskShare(request, peer.session);
      },
    };
  }

  async #introduce(session: Uint8Array) {
    const { clusterId } = this;
    const clusterCaPem = this.#ca.caPem;
    const pubKeyDer = spkiDerOf(this.#node.publicKey);
    return {
      clusterId,
      clusterName: 'test',
      clusterCaPem,
      epoch: 1n,
      ownerPublicKey: this.ownerKey,
      ownershipSignature: signed(
        ownershipStatement({ clusterId, clusterCaPem, epoch: 1n }),
        this.owner.privateKey,
      ),
      nodeCertificatePem: await this.#ca.issue(
        nodeLeaf({
          ...{ clusterId, pubKeyDer, addresses: [this.#host] },
          isControlPlane: this.behaviour.isControlPlane,
        }),
      ),
      signature: signed(joinServerStatement(session), this.#node.privateKey),
      ...this.behaviour.replacement,
      nowMs: BigInt(this.behaviour.nowMs()),
    };
  }

  async #ticket(nodeId: string, key: KeyProof | undefined, keys: TicketKeys | undefined) {
    if (key === undefined || keys === undefined) throw new TypeError('no keys');
    this.minted.set(nodeId, (this.minted.get(nodeId) ?? 0) + 1);
    await this.behaviour.onTicket(nodeId);
    const kubelet = { commonName: 'system:node:w1', organization: 'system:nodes', validDays: 1, names: [] };
    const { clusterId } = this;
    const text = new Secret(new Uint8Array(Buffer.from(JSON.stringify(FAKE_KEYS), 'utf8')));
    const isControlPlane = this.behaviour.roles.includes('ConsensusMember');
    return {
      nodeId,
      nodeName: 'w1',
      clusterId,
      clusterName: 'test',
      clusterCaPem: this.#ca.caPem,
      epoch: 1n,
      nodeCertificatePem: await this.#ca.issue(
        nodeLeaf({ clusterId, pubKeyDer: key.publicKey, addresses: ['127.0.0.1'] }),
      ),
      roles: [...this.behaviour.roles],
      labels: {},
      taints: [...this.behaviour.taints],
      controlPlanes: [{ nodeId: nodeIdOf(spkiDerOf(this.#node.publicKey)), name: 'c1', address: this.#host }],
      ...this.behaviour.settings(),
      keyDocuments: [...this.behaviour.keyDocuments],
      kubernetesCaPem: this.#kubernetesCa.caPem,
      kubernetesClientsCaPem: this.behaviour.kubernetesClients.believedPem,
      kubeletClientCertificatePem: await (
        this.behaviour.kubernetesClients.signer ?? this.#kubernetesCa
      ).issue({
        ...kubelet,
        pubKeyDer: await verifyCertificateRequest(keys.kubeletClientCsr),
        usages: ['client'],
      }),
      kubeletServingCertificatePem: await this.#kubernetesCa.issue({
        ...kubelet,
        pubKeyDer: await verifyCertificateRequest(keys.kubeletServingCsr),
        usages: ['server'],
      }),
      ...(isControlPlane
        ? {
            controlPlaneKeys: await seal(text, keys.sealingPublicKey, {
              kind: 'control-plane-keys',
              clusterId,
              nodeId,
            }),
          }
        : {}),
    };
  }
}

export const FAKE_SETTINGS = {
  version: 1,
  clusterName: 'test',
  kubernetesVersion: 'v1.35.4',
  podSubnet: '198.19.0.0/17',
  serviceSubnet: '198.19.128.0/20',
  apiServerSans: [],
  bundleManifest: Buffer.from(
    encodeManifest({
      version: 1,
      name: 'kubernetes-v1.35.4-linux-amd64',
      kubernetesVersion: 'v1.35.4',
      architecture: 'amd64',
      components: [
        {
          name: 'etcd',
          version: 'v3',
          kind: 'binary',
          sha256: '0'.repeat(64),
          sizeBytes: 1,
          source: 'test',
          scope: 'controlplane',
        },
      ],
    }),
  ).toString('utf8'),
};

/** The contents of the keys that control planes share, as far as the join protocol uses them. */
export const FAKE_KEYS: Readonly<Record<string, string>> = {
  'cluster-ca.key': 'KEY',
  'cluster-ca.crt': 'CERT',
};

function nodeIdFrom(key: KeyProof | undefined, { session }: AttestedPeer): string {
  if (key === undefined) throw new TypeError('no key');
  verifyKeyProof('cluster/join/key/v1', session, key);
  return nodeIdOf(key.publicKey);
}

function pemOf(key: KeyObject): Secret<string> {
  return new Secret(key.export({ type: 'pkcs8', format: 'pem' }).toString());
}

function signed(statement: Uint8Array, key: KeyObject): Uint8Array {
  return new Uint8Array(sign(undefined, statement, key));
}

/** New keys of a machine. */
export function createMachineKeys() {
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyPem = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  const pubKeyDer = pubKeyDerOf(keyPem);
  return { privateKey, keyPem, pubKeyDer, nodeId: nodeIdOf(pubKeyDer) };
}
