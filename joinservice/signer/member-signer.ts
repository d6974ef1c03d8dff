import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import { floorOf, type VerifiedDocument } from '../../internal/ownerdocument/index.ts';
import { seal, sealV1, type Sealed } from '../../internal/crypto/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  type LeafSpec,
  MAX_PEM_BYTES,
  nodeIdOf,
  nodeLeaf,
  operatorLeaf,
  type SubjectName,
  verifyCertificateRequest,
  verifyControlPlaneCertificate,
} from '../../internal/pki/index.ts';
import { records, type NodeRecord } from '../../internal/records/index.ts';
import { isControlPlane, isMemberState, type Role } from '../../internal/role/index.ts';
import { controlPlaneAt } from '../evidence/index.ts';
import { isListedAs } from '../ownerdocs/index.ts';
import type { SignMemberRequest } from '../signerproto/gen/signer_pb.js';
import { checkAddress, type ReservedNetworks, type ReservedNode } from './check-address.ts';
import { SignerError } from './errors.ts';
import { sealForTpm } from './seal-for-tpm.ts';
import type { EvidenceVerifier, StatementEvidence } from './evidence-verifier.ts';
import type { KeyRing } from './key-ring.ts';
import type { KnownControlPlane, SignerMemory } from './signer-memory.ts';
import type { SignerOwnerDocuments } from './signer-owner-documents.ts';
import { refuseOlderStatement, verifyStatement, type Statement } from './verify-statement.ts';
import type { StoredConfiguration } from './stored-configuration.ts';

/** Dependencies of the signer. */
export interface SignerReads {
  /** The records of the cluster, read only. */
  readonly etcd: KeySpace;
  readonly keys: KeyRing;
  readonly configuration: StoredConfiguration;
  readonly documents: SignerOwnerDocuments;
  readonly memory: SignerMemory;
  readonly evidence: EvidenceVerifier;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** From the configuration of this program, which root writes. */
  readonly cluster: SignerCluster;
}

/** Facts that must not come from etcd. */
export interface SignerCluster {
  readonly clusterId: string;
  /** The node that this signer runs on. */
  readonly own: ReservedNode;
  readonly networks: ReservedNetworks;
}

/** The request of a member. All of it is untrusted until it is verified. */
export type MemberRequest = Omit<SignMemberRequest, '$typeName' | 'roles' | 'timeMs' | 'evidence'> & {
  readonly roles: readonly string[];
  readonly timeMs: number;
  readonly evidence: readonly StatementEvidence[];
};

/**
 * Signs what the statement of a machine requests, as far as its record and, for a control plane, the grant of an
 * owner allow. So an attacker who controls etcd can prevent certificates, but cannot get the certificate of a control
 * plane.
 */
export class MemberSigner {
  readonly #reads: SignerReads;

  constructor(reads: SignerReads) {
    this.#reads = reads;
  }

  /** Verifies a request and signs its certificates. @throws SignerError, OwnerDocumentError */
  async signMember(request: MemberRequest, signal: AbortSignal) {
    const { cluster } = this.#reads;
    const node = await this.#node(request.nodeId, signal);
    const statement = this.#statement(node, request);
    await this.#refuseReplay(node, statement);
    const controlPlanes = [cluster.own, ...(await this.#grantedControlPlanes(signal))];
    const address = checkAddress(node, request.address, { networks: cluster.networks, controlPlanes });
    await this.#refuseReserved(node, address, signal);
    const made = { statement: statement.bytes, evidence: request.evidence };
    const shows = await this.#reads.evidence.verify(node, made, signal);
    const approval = isControlPlane(node.roles)
      ? await this.#ownerApproval(node, { shows, nodeCertPem: request.nodeCertificatePem }, signal)
      : undefined;
    const verified = { request, statement, address, shows, approval };
    const credentials = await this.#credentials(node, verified, signal);
    // The statement is stored before the answer is sent. If a crash loses the answer, the machine may repeat
    // the same statement.
    await this.#remember(node, verified);
    return credentials;
  }

  /** The certificate for the key of an operator that an owner has signed. @throws SignerError `signer-not-on-record` */
  async signOperator(certificateRequest: Uint8Array, signal: AbortSignal): Promise<string> {
    const { documents, cluster, configuration, keys } = this.#reads;
    const pubKeyDer = await keyOf(certificateRequest);
    const operator = await documents.operator(pubKeyDer, signal);
    if (operator === undefined)
      throw new SignerError('signer-not-on-record', 'signing for an operator: no owner has signed this key');
    const validDays = await configuration.operatorDays(signal);
    const leaf = operatorLeaf({ clusterId: cluster.clusterId, pubKeyDer, name: operator.name, validDays });
    return (await keys.certificateAuthority('cluster-ca')).issue(leaf);
  }

  #statement(node: NodeRecord, request: MemberRequest): Statement {
    const { cluster, clock } = this.#reads;
    const nodePubKeyDer = new Uint8Array(Buffer.from(node.pubKey, 'base64'));
    const asked = { ...request, clusterId: cluster.clusterId, nodePubKeyDer };
    const by = { nodeId: node.nodeId, signature: request.signature, nowMs: clock.nowMs() };
    return verifyStatement(asked, by);
  }

  /**
   * The known control planes, without those whose grant an owner has withdrawn, as after a removal. A withdrawal is remembered,
   * so that neither the earlier grant nor the reservation comes back when somebody restores an old etcd document.
   */
  async #grantedControlPlanes(signal: AbortSignal): Promise<readonly KnownControlPlane[]> {
    const { memory, documents } = this.#reads;
    const known = [...(await memory.controlPlanes()).values()].filter((each) => !each.isWithdrawn);
    const withdrawals = await documents.withdrawals(known, signal);
    for (const [index, withdrawal] of withdrawals.entries()) {
      const each = known[index];
      if (each === undefined || withdrawal === undefined) continue;
      await memory.keepControlPlane({ ...each, grant: floorOf(withdrawal), isWithdrawn: true });
    }
    return known.filter((_, index) => withdrawals[index] === undefined);
  }

  /**
   * This signer does not know control planes for which only other signers have signed. Their addresses are reserved
   * in etcd, so etcd is checked too.
   */
  async #refuseReserved({ nodeId }: NodeRecord, address: string, signal: AbortSignal): Promise<void> {
    const holder = await controlPlaneAt(this.#reads.etcd, address, signal);
    if (holder === undefined || holder.nodeId === nodeId) return;
    throw new SignerError(
      'signer-address-other',
      `signing for ${nodeId} at ${address}: it is the address of control plane ${holder.name}`,
    );
  }

  /**
   * Refuses a statement that is older than the newest one. The same statement again gets an equal answer,
   * sealed to the same key.
   */
  async #refuseReplay({ nodeId }: NodeRecord, statement: Statement): Promise<void> {
    const { memory } = this.#reads;
    const newest = (await memory.controlPlanes()).get(nodeId)?.statement ?? memory.workers.get(nodeId);
    refuseOlderStatement(statement, { of: nodeId, newest });
  }

  /**
   * Finds the owner's approval of this control plane: a grant for its node key and machine, or a signed inventory. An
   * inventory can list a machine before the machine has a node key. A machine with another attestation key needs a
   * newer grant.
   */
  async #ownerApproval(
    node: NodeRecord,
    { shows, nodeCertPem }: { readonly shows: Shown; readonly nodeCertPem: string },
    signal: AbortSignal,
  ): Promise<OwnerApproval> {
    const { documents, configuration, memory, clock } = this.#reads;
    const { config, sha256 } = await configuration.now(signal);
    const roles = node.roles.filter((role) => role !== 'KubernetesWorker');
    const isListed = isListedAs(config.join.inventory, shows.machine.identity, roles);
    const wasRunning = await this.#isControlPlane(node, nodeCertPem);
    const isRunning = wasRunning && (await this.#isControlPlane(node, nodeCertPem, clock.nowMs()));
    const grant = await documents.grant(node, { wasRunning, isRunning, signal }).catch((error: unknown) => {
      if (isListed && isMissing(error)) return undefined;
      throw error;
    });
    // Read after the grant, because the minimum serials in the grant may show that this policy is outdated.
    const signed = await documents.configurationSha256({ isRunning, signal });
    if (signed !== sha256)
      throw new SignerError(
        'signer-policy-unsigned',
        `signing for ${node.nodeId} as a control plane: configuration ${sha256} is not signed, signed is ${signed ?? 'none'}`,
      );
    const known = (await memory.controlPlanes()).get(node.nodeId);
    const isSame = known === undefined || known.akName === shows.akName;
    if (!isSame && (known.grant?.serial ?? 0) >= (grant?.serial ?? 0))
      throw new SignerError(
        'signer-machine-changed',
        `signing for ${node.nodeId}: attestation key ${shows.akName ?? 'none'}, known is ${known.akName ?? 'none'}`,
      );
    return { grant };
  }

  /**
   * Whether the cluster CA has issued this control-plane certificate to the node, valid at `atMs` or at any time. That alone grants
   * nothing.
   */
  async #isControlPlane({ nodeId }: NodeRecord, nodeCertPem: string, atMs?: number): Promise<boolean> {
    const { cluster, keys } = this.#reads;
    if (nodeId === cluster.own.nodeId) return true;
    if (nodeCertPem === '' || nodeCertPem.length > MAX_PEM_BYTES) return false;
    const caPem = await keys.trustedClusterCas();
    try {
      const certificate = new X509Certificate(nodeCertPem);
      const nowMs = (): number => atMs ?? Date.parse(certificate.validFrom);
      return (
        verifyControlPlaneCertificate(certificate, { caPem, clusterId: cluster.clusterId, nowMs }).nodeId ===
        nodeId
      );
    } catch {
      return false; // The node was not a control plane before, so its grant must not have expired.
    }
  }

  async #remember({ nodeId, name }: NodeRecord, verified: VerifiedRequest): Promise<void> {
    const { memory } = this.#reads;
    const { address, shows, approval } = verified;
    const statement = { id: verified.statement.id, timeMs: verified.statement.timeMs };
    if (approval === undefined) return memory.workers.keep(nodeId, statement);
    const { identity } = shows.machine;
    // The grant stays known where the inventory is enough today: an earlier one must not count again.
    const known = (await memory.controlPlanes()).get(nodeId)?.grant;
    const grant = approval.grant === undefined ? known : floorOf(approval.grant);
    await memory.keepControlPlane({
      ...{ version: 1, nodeId, name, address, identity, statement },
      ...(shows.akName === undefined ? {} : { akName: shows.akName }),
      ...(grant === undefined ? {} : { grant }),
    });
  }

  async #credentials(node: NodeRecord, verified: VerifiedRequest, signal: AbortSignal) {
    const { request, address } = verified;
    const { keys, configuration, cluster } = this.#reads;
    const [client, serving] = [await keyOf(request.kubeletClientCsr), await keyOf(request.kubeletServingCsr)];
    const clusterCa = await keys.certificateAuthority('cluster-ca');
    const [servers, clients] = [await keys.kubernetesServers(), await keys.kubernetesClients()];
    const days = await configuration.memberDays(signal);
    const leaf = nodeLeaf({
      clusterId: cluster.clusterId,
      pubKeyDer: Buffer.from(node.pubKey, 'base64'),
      addresses: [address],
      validDays: days.node,
      isControlPlane: isControlPlane(node.roles),
    });
    const names: readonly SubjectName[] = [
      { type: 'dns', value: node.name },
      { type: 'ip', value: address },
    ];
    const asClient = { usage: 'client', names: [], validDays: days.kubeletClient } as const;
    const asServer = { usage: 'server', names, validDays: days.kubeletServing } as const;
    // The shared keys, only for a control plane: the machine requested them, its record allows them and an
    // owner has signed that.
    const controlPlaneKeys = await this.#sealedKeys(node, verified);
    return {
      nodeCertificatePem: await clusterCa.issue(leaf),
      kubernetesCaPem: servers.kubeletTrustedPem,
      kubernetesClientsCaPem: clients.trustedPem ?? '',
      kubeletClientCertificatePem: await clients.signer.issue(kubeletLeaf(node, client, asClient)),
      kubeletServingCertificatePem: await servers.signer.issue(kubeletLeaf(node, serving, asServer)),
      ...(controlPlaneKeys === undefined ? {} : { controlPlaneKeys }),
    };
  }

  async #sealedKeys(
    { nodeId }: NodeRecord,
    { request, shows, approval }: VerifiedRequest,
  ): Promise<Sealed | undefined> {
    if (approval === undefined || !isControlPlane(request.roles as readonly Role[])) return undefined;
    const keys = await this.#reads.keys.controlPlaneKeys();
    // A grant contains the node key that has signed this request. An inventory lists only a TPM, so the keys
    // are encrypted for that TPM.
    const text = approval.grant === undefined ? sealForTpm(keys, shows, request) : keys;
    const { clusterId } = this.#reads.cluster;
    try {
      const context = { kind: 'control-plane-keys', clusterId, nodeId } as const;
      // Agents of earlier versions know the first format only.
      const sealed = request.opensHpke
        ? seal(text, request.sealingPublicKey, context)
        : sealV1(text, request.sealingPublicKey, context);
      return await sealed;
    } catch (error) {
      if (error instanceof RangeError) throw invalid('the sealing key is not a P-256 key', error);
      throw error;
    }
  }

  async #node(nodeId: string, signal: AbortSignal): Promise<NodeRecord> {
    const key = records.node.key(nodeId);
    const { etcd } = this.#reads;
    const node = nodeId.includes('/') ? undefined : (await records.node.read(etcd, key, signal)).record;
    // The ID is derived from the key. If the record had another key, the signer would issue a kubelet
    // certificate for a wrong ID.
    const isOwnKey = node !== undefined && nodeIdOf(Buffer.from(node.pubKey, 'base64')) === nodeId;
    if (!isOwnKey || !isMemberState(node.state)) throw notOnRecord(key);
    return node;
  }
}

type Shown = Awaited<ReturnType<EvidenceVerifier['verify']>>;

/** A request that passed every check, and what the checks have shown. */
interface VerifiedRequest {
  readonly request: MemberRequest;
  readonly statement: Statement;
  /** Canonical. */
  readonly address: string;
  readonly shows: Shown;
  /** Undefined for workers. */
  readonly approval: OwnerApproval | undefined;
}

/** The proof that an owner approved a control plane; without a grant it is the inventory. */
interface OwnerApproval {
  readonly grant: VerifiedDocument<'grant'> | undefined;
}

function isMissing(error: unknown): boolean {
  return error instanceof SignerError && error.code === 'signer-grant-missing';
}

/** A kubelet certificate with the user name that Node authorization expects. */
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
    // The UID lets API servers tell apart machines that had the same name (joinservice/authzwebhook).
    userId: node.nodeId,
    pubKeyDer,
    usages: [as.usage],
    names: as.names,
    validDays: as.validDays,
  };
}

async function keyOf(csr: Uint8Array): Promise<Uint8Array> {
  try {
    return await verifyCertificateRequest(csr);
  } catch (error) {
    throw invalid('malformed certificate request', error);
  }
}

function invalid(what: string, cause?: unknown): SignerError {
  return new SignerError('signer-request-invalid', `invalid request to sign: ${what}`, { cause });
}

function notOnRecord(key: string): SignerError {
  return new SignerError('signer-not-on-record', `the cluster has no member whose record is ${key}`);
}
