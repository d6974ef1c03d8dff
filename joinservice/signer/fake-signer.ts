import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { MachineKeyIssuer } from '../../internal/attestation/machinekey/index.ts';
import {
  encodeTicketStatement,
  generateEd25519Key,
  ticketEvidenceBinding,
  unseal,
  type TicketStatement,
} from '../../internal/crypto/index.ts';
import type { Write } from '../../internal/etcd/index.ts';
import {
  createCaCertPem,
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { records, type MachineRecord, type NodeRecord } from '../../internal/records/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  configurationWrite,
  FakeClock,
  MemoryEtcd,
  MemoryFiles,
  TestCluster,
  TestOwner,
} from '../../internal/testing/index.ts';
import { CONTROL_PLANE_KEYS } from './key-ring.ts';
import { MemberSigner, type MemberRequest, type SignerReads } from './member-signer.ts';
import { createReads } from './serve-signer.ts';

const never = new AbortController().signal;
export const CONTROL_PLANE = ['ConsensusMember', 'KubernetesController'] as const;
export const CONFIGURATION = {
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  join: { policy: 'approve', inventory: [] },
};

/** A machine without a TPM, which is identified by its key alone, and its agent. */
export class SignerMachine {
  readonly keyPem: Secret<string>;
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
  readonly sealingKeyPem: Secret<string> = generateKeyPem();
  readonly #privKey: KeyObject;

  constructor(keyPem: Secret<string> = generateEd25519Key()) {
    this.keyPem = keyPem;
    this.#privKey = createPrivateKey(keyPem.reveal());
    this.pubKeyDer = spkiDerOf(createPublicKey(this.#privKey));
    this.nodeId = nodeIdOf(this.pubKeyDer);
  }

  get machine(): MachineRecord {
    const id = fingerprintOfKey(this.pubKeyDer).replace('sha256:', '');
    return {
      ...{ identity: `machine-key:${id}`, proof: 'pinned', variant: 'machine-key', profile: 'identity' },
      ...{ evidenceDigest: id, policyVersion: 'p' },
    } as const;
  }

  /** The node record of the machine. */
  record(name: string, roles: readonly Role[], over: Partial<NodeRecord> = {}): NodeRecord {
    return {
      ...{ version: 1, nodeId: this.nodeId, name, state: 'UP', roles: [...roles], labels: {}, createdMs: 1 },
      pubKey: Buffer.from(this.pubKeyDer).toString('base64'),
      admission: { ...this.machine, decidedBy: 'operator:o', timeMs: 1 },
      ...over,
    };
  }

  /** The request that the agent sends. `lie`: fields of the request that differ from the signed statement. */
  async ask(
    of: Pick<TicketStatement, 'clusterId' | 'timeMs'> & Partial<TicketStatement>,
    lie: Partial<MemberRequest> = {},
  ): Promise<MemberRequest> {
    const fields: TicketStatement = {
      ...{ address: '192.0.2.7', roles: CONTROL_PLANE, session: new Uint8Array(64).fill(3) },
      kubeletClientCsr: await createCertificateRequest(generateKeyPem(), 'kubelet'),
      kubeletServingCsr: await createCertificateRequest(generateKeyPem(), 'kubelet'),
      sealingPublicKey: pubKeyDerOf(this.sealingKeyPem),
      nodePubKeyDer: this.pubKeyDer,
      ...of,
    };
    const statement = encodeTicketStatement(fields);
    const issuer = new MachineKeyIssuer({ privKey: new Secret(this.#privKey) });
    const document = await issuer.issue(ticketEvidenceBinding(statement), never);
    return {
      ...fields,
      nodeId: this.nodeId,
      signature: new Uint8Array(sign(undefined, statement, this.#privKey)),
      evidence: [{ variant: 'machine-key', document }],
      nodeCertificatePem: '',
      enrolment: new Uint8Array(),
      opensHpke: true,
      ...lie,
    };
  }
}

/**
 * A signer with its keys, an etcd that the test can write, and an owner whose key the signer does not have.
 */
export class FakeSigner {
  readonly etcd: MemoryEtcd;
  readonly files = new MemoryFiles();
  readonly clock: FakeClock;
  readonly cluster: TestCluster;
  readonly owner: TestOwner;
  readonly own = new SignerMachine();
  reads: SignerReads;

  private constructor(world: {
    readonly etcd: MemoryEtcd;
    readonly clock: FakeClock;
    readonly cluster: TestCluster;
  }) {
    this.etcd = world.etcd;
    this.clock = world.clock;
    this.cluster = world.cluster;
    this.owner = new TestOwner({ clock: world.clock, clusterId: world.cluster.clusterId });
    this.reads = this.#start(1);
  }

  static async create(clusterId?: string): Promise<FakeSigner> {
    const clock = new FakeClock();
    const etcd = new MemoryEtcd();
    const cluster = await TestCluster.create(etcd, () => clock.nowMs(), undefined, clusterId);
    const fake = new FakeSigner({ etcd, clock, cluster });
    await fake.#writeKeys();
    fake.write(configurationWrite(CONFIGURATION), fake.owner.policyWrite(configurationWrite(CONFIGURATION)));
    return fake;
  }

  /** Starts a new signer process with the files of the previous one. */
  restart(epoch = 1, signedAfterMs?: number): void {
    this.reads = this.#start(epoch, signedAfterMs);
  }

  #start(epoch: number, signedAfterMs?: number): SignerReads {
    const { clusterId } = this.cluster;
    const own = { nodeId: this.own.nodeId, name: 'c1', address: '192.0.2.1' };
    const networks = {
      serviceSubnet: '10.96.0.0/12',
      podSubnet: '10.244.0.0/16',
      apiServerSans: ['192.0.2.100'],
    };
    const ownerKey = Buffer.from(this.owner.pubKey).toString('base64');
    const cluster = { clusterId, epoch, own, networks, signedAfterMs, ownerKeys: [ownerKey] as [string] };
    return createReads({ cluster, keys: '/keys', memory: '/memory' }, this);
  }

  /** Writes to etcd, as an attacker with access to it could. */
  write(...writes: readonly Write[]): void {
    this.etcd.commitNow({ when: [], then: [...writes] });
  }

  put(record: NodeRecord): void {
    this.write(records.node.put(records.node.key(record.nodeId), record));
  }

  async request(machine: SignerMachine, of: Partial<TicketStatement> = {}): Promise<MemberRequest> {
    return machine.ask({ clusterId: this.cluster.clusterId, timeMs: this.clock.nowMs(), ...of });
  }

  sign(request: MemberRequest) {
    return new MemberSigner(this.reads).signMember(request, never);
  }

  /** The keys in an answer, decrypted with the private half of the recipient key. */
  async open(
    machine: SignerMachine,
    signed: Awaited<ReturnType<FakeSigner['sign']>>,
  ): Promise<Record<string, string>> {
    if (signed.controlPlaneKeys === undefined) throw new TypeError('no keys');
    const { clusterId } = this.cluster;
    const context = { kind: 'control-plane-keys', clusterId, nodeId: machine.nodeId } as const;
    const text = (await unseal(signed.controlPlaneKeys, machine.sealingKeyPem, context)).reveal();
    return JSON.parse(Buffer.from(text).toString('utf8')) as Record<string, string>;
  }

  async #writeKeys(): Promise<void> {
    for (const directory of ['/keys', '/memory']) await this.files.makeDirectory(directory);
    const files = await signerKeyFiles(this.cluster, this.clock.nowMs());
    for (const [name, text] of Object.entries(files)) await this.files.writeAtomic(`/keys/${name}`, text);
  }
}

/** The key files of a signer by name, with usable keys of the two CAs. */
export async function signerKeyFiles(
  { authority }: TestCluster,
  nowMs: number,
): Promise<Readonly<Record<string, string>>> {
  const keyPem = generateKeyPem();
  return {
    ...Object.fromEntries(CONTROL_PLANE_KEYS.map((name) => [name, `text of ${name}`])),
    'kubernetes-ca.crt': await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs }),
    'kubernetes-ca.key': keyPem.reveal(),
    'cluster-ca.crt': authority.caPem,
    'cluster-ca.key': authority.keyPem.reveal(),
  };
}

/** A recipient key pair of an attacker. */
export function recipientKey(): { readonly keyPem: Secret<string>; readonly pubKeyDer: Uint8Array } {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keyPem = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  return { keyPem, pubKeyDer: pubKeyDerOf(keyPem) };
}
