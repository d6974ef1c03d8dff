import { X509Certificate, type KeyObject } from 'node:crypto';
import { put, type KeySpace } from '../../etcd/index.ts';
import {
  createCaCertPem,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  nodeIdOf,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  verifyMemberCertificate,
  type MemberIdentity,
  type MemberTrust,
} from '../../pki/index.ts';
import {
  CLUSTER_KEY,
  CONFIGURATION_KEY,
  documentKey,
  nodeNameKey,
  records,
  type NodeRecord,
} from '../../records/index.ts';
import { isControlPlane, type OperatorRole } from '../../role/index.ts';
import type { TlsIdentity } from '../../rpc/index.ts';
import { Secret } from '../../secret/index.ts';
import type { TestOwner } from './test-owner.ts';

const signal = new AbortController().signal;

/** A member of a `TestCluster`: its keys and certificate, and its identity for others. */
export interface TestPeer {
  readonly identity: MemberIdentity;
  readonly tls: TlsIdentity;
  readonly pubKeyDer: Uint8Array;
}

/** The addresses that every node of a `TestCluster` may report. */
const NODE_ADDRESSES = ['127.0.0.1', '192.0.2.1', '192.0.2.2', '198.51.100.1'];

/** The records of a cluster with real keys and certificates, in a given etcd. */
export class TestCluster {
  readonly clusterId: string;
  readonly trust: MemberTrust;
  /** The cluster CA with its key. */
  readonly authority: { readonly caPem: string; readonly keyPem: Secret<string> };
  readonly #etcd: KeySpace;
  readonly #signer: KeyCertificateSigner;
  /** Signs every operator that is added; without it their records are unsigned, as an attacker would write them. */
  readonly #owner: TestOwner | undefined;
  readonly #operators: { name: string; fingerprint: string; role: OperatorRole }[] = [];

  private constructor(
    etcd: KeySpace,
    authority: { readonly caPem: string; readonly keyPem: Secret<string> },
    options: {
      readonly nowMs: () => number;
      readonly owner: TestOwner | undefined;
      readonly clusterId: string;
    },
  ) {
    const { nowMs, owner, clusterId } = options;
    this.clusterId = clusterId;
    this.#owner = owner;
    const signer = new KeyCertificateSigner({ ...authority, nowMs });
    this.authority = authority;
    this.#etcd = etcd;
    this.#signer = signer;
    this.trust = { caPem: signer.caPem, clusterId: this.clusterId, nowMs };
  }

  /** @param etcd the key space of the cluster @param owner signs the operators of `addOperator` */
  static async create(
    etcd: KeySpace,
    nowMs: () => number,
    owner?: TestOwner,
    clusterId = 'c0ffee',
  ): Promise<TestCluster> {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'cluster test', keyPem, nowMs: nowMs() });
    const cluster = new TestCluster(etcd, { caPem, keyPem }, { nowMs, owner, clusterId });
    await cluster.setEpoch(1);
    const configuration = {
      version: 1 as const,
      document: btoa('one'),
      updatedMs: nowMs(),
      updatedBy: 'test',
    };
    await cluster.#put(CONFIGURATION_KEY, records.configuration.encode(configuration));
    return cluster;
  }

  async setEpoch(epoch: number): Promise<void> {
    const { clusterId } = this;
    const record = {
      version: 1 as const,
      clusterId,
      clusterName: 'test',
      epoch,
      caPem: this.#signer.caPem,
      createdMs: 1,
      firstNodeId: 'first',
    };
    await this.#put(CLUSTER_KEY, records.cluster.encode(record));
  }

  /** Adds a node with a certificate. Its record is written unless `over` is undefined. */
  async addNode(
    name: string,
    over: Partial<NodeRecord> | undefined = {},
    key?: KeyObject,
  ): Promise<TestPeer> {
    const keyPem =
      key === undefined
        ? generateKeyPem()
        : new Secret(key.export({ type: 'pkcs8', format: 'pem' }).toString());
    const pubKeyDer = pubKeyDerOf(keyPem);
    const nodeId = nodeIdOf(pubKeyDer);
    const leaf = nodeLeaf({
      ...{ clusterId: this.clusterId, pubKeyDer, addresses: NODE_ADDRESSES },
      isControlPlane: isControlPlane(over.roles ?? []),
    });
    await this.#put(
      records.node.key(nodeId),
      records.node.encode({
        version: 1,
        nodeId,
        name,
        pubKey: Buffer.from(pubKeyDer).toString('base64'),
        state: 'UP',
        roles: [],
        labels: {},
        createdMs: 1,
        ...over,
      }),
    );
    await this.#put(nodeNameKey(name), new TextEncoder().encode(nodeId));
    return this.#peer(await this.#signer.issue(leaf), keyPem, pubKeyDer);
  }

  async addOperator(name: string, role: OperatorRole, keyPem = generateKeyPem()): Promise<TestPeer> {
    const pubKeyDer = pubKeyDerOf(keyPem);
    const fingerprint = fingerprintOfKey(pubKeyDer);
    const record = { version: 1 as const, name, fingerprint, role, createdMs: 1 };
    await this.#put(records.operator.key(fingerprint), records.operator.encode(record));
    await this.signOperator({ name, fingerprint, role });
    const leaf = operatorLeaf({ clusterId: this.clusterId, pubKeyDer, name });
    return this.#peer(await this.#signer.issue(leaf), keyPem, pubKeyDer);
  }

  /** Adds an operator to the list that the owner of this cluster signs. */
  async signOperator(operator: { name: string; fingerprint: string; role: OperatorRole }): Promise<void> {
    if (this.#owner === undefined) return;
    this.#operators.push(operator);
    const document = this.#owner.sign('operators', { operators: [...this.#operators] });
    const record = {
      version: 1 as const,
      document: Buffer.from(document).toString('base64'),
      recordedMs: 1,
      recordedBy: 'test',
    };
    await this.#put(documentKey('operators', ''), records.document.encode(record));
  }

  /** Deletes the record of a member; its certificate stays valid. */
  async forget({ identity }: TestPeer): Promise<void> {
    const key =
      identity.kind === 'node'
        ? records.node.key(identity.nodeId)
        : records.operator.key(identity.fingerprint);
    await this.#etcd.commit({ when: [], then: [{ kind: 'delete', key }] }, { signal });
  }

  #peer(certPem: string, keyPem: ReturnType<typeof generateKeyPem>, pubKeyDer: Uint8Array): TestPeer {
    const identity = verifyMemberCertificate(new X509Certificate(certPem), this.trust);
    return { identity, pubKeyDer, tls: { certPem, keyPem } };
  }

  async #put(key: string, value: Uint8Array): Promise<void> {
    await this.#etcd.commit({ when: [], then: [put(key, value)] }, { signal });
  }
}
