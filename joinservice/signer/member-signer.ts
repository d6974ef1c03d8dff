import { isIP } from 'node:net';
import { isSignedBy, seal, ticketKeysStatement, type Sealed } from '../../internal/crypto/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  fingerprintOfKey,
  nodeLeaf,
  operatorLeaf,
  verifyRequest,
  type LeafSpec,
  type SubjectName,
} from '../../internal/pki/index.ts';
import { CLUSTER_KEY, records, type ClusterRecord, type NodeRecord } from '../../internal/records/index.ts';
import { isControlPlane, isMemberState } from '../../internal/role/index.ts';
import { SignerError } from './errors.ts';
import type { KeyRing } from './key-ring.ts';
import { MINUTES_PER_DAY, type Lifetimes } from './lifetimes.ts';

/** What a signature is made from. */
export interface SignerReads {
  /** The cluster's records; reading is enough. */
  readonly etcd: KeySpace;
  readonly keys: KeyRing;
  readonly lifetimes: Lifetimes;
}

/** What a member asks to have signed. Everything here is the join service's word until it has been verified. */
export interface MemberRequest {
  readonly nodeId: string;
  readonly address: string;
  readonly kubeletClientCsr: Uint8Array;
  readonly kubeletServingCsr: Uint8Array;
  readonly sealingPublicKey: Uint8Array;
  readonly signature: Uint8Array;
}

export interface MemberCredentials {
  readonly nodeCertPem: string;
  readonly kubernetesCaPem: string;
  /** Whom the kubelet is to believe of its clients, one after the other; empty: the Kubernetes CA. */
  readonly kubernetesClientsCaPem: string;
  readonly kubeletClientCertPem: string;
  readonly kubeletServingCertPem: string;
  /** Where the roles on record need them. */
  readonly controlPlaneKeys: Sealed | undefined;
}

/**
 * Signs what records allow and nothing else. What a certificate says comes from the record: name, roles, key. From the
 * request come only public keys, which the machine itself signed, and its address.
 */
export class MemberSigner {
  readonly #etcd: KeySpace;
  readonly #keys: KeyRing;
  readonly #lifetimes: Lifetimes;

  constructor({ etcd, keys, lifetimes }: SignerReads) {
    this.#etcd = etcd;
    this.#keys = keys;
    this.#lifetimes = lifetimes;
  }

  async signMember(request: MemberRequest, signal: AbortSignal): Promise<MemberCredentials> {
    const { nodeId, address } = request;
    if (isIP(address) === 0) throw invalid(`the address ${JSON.stringify(address.slice(0, 64))}`);
    const [cluster, node] = [await this.#cluster(signal), await this.#node(nodeId, signal)];
    const pubKeyDer = Buffer.from(node.pubKey, 'base64');
    if (!isSignedBy(pubKeyDer, ticketKeysStatement(request), request.signature))
      throw invalid(`the keys were not signed by ${nodeId}`);
    const [client, serving] = [await keyOf(request.kubeletClientCsr), await keyOf(request.kubeletServingCsr)];
    const [clusterCa, kubernetesCa] = [
      await this.#keys.authority('cluster-ca'),
      await this.#keys.authority('kubernetes-ca'),
    ];
    const clients = await this.#keys.kubernetesClients();
    const { clusterId } = cluster;
    const { nodeMinutes, kubeletMinutes } = await this.#lifetimes.now(signal);
    const validDays = nodeMinutes / MINUTES_PER_DAY;
    const kubeletDays = kubeletMinutes / MINUTES_PER_DAY;
    return {
      nodeCertPem: await clusterCa.issue(
        nodeLeaf({
          ...{ clusterId, pubKeyDer, addresses: [address], validDays },
          isControlPlane: isControlPlane(node.roles),
        }),
      ),
      kubernetesCaPem: kubernetesCa.caPem,
      kubernetesClientsCaPem: clients.believedPem ?? '',
      kubeletClientCertPem: await clients.signer.issue(
        kubeletLeaf(node, client, { usage: 'client', names: [], validDays: kubeletDays }),
      ),
      kubeletServingCertPem: await kubernetesCa.issue(
        kubeletLeaf(node, serving, {
          usage: 'server',
          validDays: kubeletDays,
          names: [
            { type: 'dns', value: node.name },
            { type: 'ip', value: address },
          ],
        }),
      ),
      controlPlaneKeys: await this.#sealedKeys(node, clusterId, request.sealingPublicKey),
    };
  }

  /** For the key in the request, if an operator has it. */
  async signOperator(certificateRequest: Uint8Array, signal: AbortSignal): Promise<string> {
    const pubKeyDer = await keyOf(certificateRequest);
    const key = records.operator.key(fingerprintOfKey(pubKeyDer));
    const entry = await this.#etcd.get(key, { signal });
    if (entry === undefined) throw notOnRecord(key);
    const { name } = records.operator.decode(key, entry.value);
    const { clusterId } = await this.#cluster(signal);
    const validDays = await this.#lifetimes.operatorDays(signal);
    const leaf = operatorLeaf({ clusterId, pubKeyDer, name, validDays });
    return (await this.#keys.authority('cluster-ca')).issue(leaf);
  }

  async #sealedKeys(
    node: NodeRecord,
    clusterId: string,
    sealingPublicKey: Uint8Array,
  ): Promise<Sealed | undefined> {
    if (!isControlPlane(node.roles)) return undefined;
    const keys = await this.#keys.controlPlaneKeys();
    try {
      return seal(keys, sealingPublicKey, { kind: 'control-plane-keys', clusterId, nodeId: node.nodeId });
    } catch (error) {
      if (error instanceof RangeError) throw invalid('the key to seal to is none of P-256', error);
      throw error;
    }
  }

  async #cluster(signal: AbortSignal): Promise<ClusterRecord> {
    const entry = await this.#etcd.get(CLUSTER_KEY, { signal });
    if (entry === undefined) throw notOnRecord(CLUSTER_KEY);
    return records.cluster.decode(CLUSTER_KEY, entry.value);
  }

  async #node(nodeId: string, signal: AbortSignal): Promise<NodeRecord> {
    const key = records.node.key(nodeId);
    const entry = nodeId.includes('/') ? undefined : await this.#etcd.get(key, { signal });
    const node = entry === undefined ? undefined : records.node.decode(key, entry.value);
    if (node === undefined || !isMemberState(node.state)) throw notOnRecord(key);
    return node;
  }
}

/** Kubernetes' own names of a kubelet (Node authorization): the user of its certificates, client and serving. */
function kubeletLeaf(
  node: NodeRecord,
  pubKeyDer: Uint8Array,
  as: {
    readonly usage: 'client' | 'server';
    readonly names: readonly SubjectName[];
    readonly validDays: number;
  },
): LeafSpec {
  return {
    commonName: `system:node:${node.name}`,
    organization: 'system:nodes',
    // By it the API servers know which machine this is, also when another one has got its name (joinservice/authorize).
    userId: node.nodeId,
    pubKeyDer,
    usages: [as.usage],
    names: as.names,
    validDays: as.validDays,
  };
}

async function keyOf(csr: Uint8Array): Promise<Uint8Array> {
  try {
    return await verifyRequest(csr);
  } catch (error) {
    throw invalid('a certificate request', error);
  }
}

function invalid(what: string, cause?: unknown): SignerError {
  return new SignerError('signer-request-invalid', `reading a request to sign: ${what}`, { cause });
}

function notOnRecord(key: string): SignerError {
  return new SignerError('signer-not-on-record', `record ${key} of a member not found`);
}
