import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { MAX_EVIDENCE_BYTES } from '../../../internal/attestation/index.ts';
import { MAX_ENROLMENT_BYTES } from '../../../internal/attestation/enrolment/index.ts';
import { lockCounterOf } from '../../../internal/attestation/tpm/index.ts';
import { canonicalJson } from '../../../internal/config/index.ts';
import { MAX_SPKI_BYTES, type Sealed } from '../../../internal/crypto/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import { MAX_PEM_BYTES } from '../../../internal/pki/index.ts';
import {
  records,
  type JoinRecord,
  type MachineRecord,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { isControlPlane, MAX_ROLE_CHARS, MAX_ROLES } from '../../../internal/role/index.ts';
import {
  evidenceIdentityOf,
  isSameMachine,
  reserveAddress,
  whyAddressReserved,
} from '../../evidence/index.ts';
import type {
  IssueJoinTicketRequest,
  IssueRejoinTicketRequest,
  TicketKeys,
  TicketSchema,
} from '../../joinproto/gen/join_pb.js';
import type { SignerClient } from '../../signerlink/index.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import type { MembershipCommits } from '../admission/membership-commits.ts';
import { JoinError } from '../errors.ts';
import { parseAddress, verifyKey } from '../stream/read-hello.ts';
import type { ClockObservations } from '../machine/clock-observations.ts';

const MAX_CSR_BYTES = 8192;
/**
 * A machine sends at most two pieces of evidence: one of its strongest variant (for example a TPM), and one of its
 * key alone.
 */
const MAX_EVIDENCE = 2;

/** Dependencies of `Tickets`. */
export interface TicketPorts {
  readonly etcd: KeySpace;
  readonly commits: MembershipCommits;
  readonly facts: ClusterFacts;
  /** The join service, which untrusted peers reach, has no key of the cluster itself. */
  readonly signer: Pick<SignerClient, 'signMember'>;
  readonly clockObservations: ClockObservations;
  /** Throws unless the evidence of the session satisfies the current policy and its lock PCR has the value of this cluster. */
  readonly checkEvidence: (peer: AttestedPeer) => void;
  /** Throws unless the current policy lets this machine be a member. */
  readonly checkAllowed: (identity: string) => void;
}

type Ticket = MessageInitShape<typeof TicketSchema>;

/** Issues tickets. All checks come first; the membership is stored before its certificates are signed. */
export class Tickets {
  readonly #ports: TicketPorts;

  constructor(ports: TicketPorts) {
    this.#ports = ports;
  }

  /** The ticket of an admitted machine, which becomes a member. @throws JoinError */
  async join(request: IssueJoinTicketRequest, peer: AttestedPeer, signal: AbortSignal): Promise<Ticket> {
    const { nodeId } = verifyKey(request.key, peer.session);
    if (request.joinId !== nodeId)
      throw new JoinError(
        'join-ticket-other-key',
        `issuing the ticket of join request ${request.joinId.slice(0, 64)} to ${nodeId}: the machine proved its own key, but the join request belongs to another key`,
      );
    const keys = readKeys(request.keys);
    const asked = await this.#request(nodeId, signal);
    const claimed = parseAddress(asked.claimed.address);
    const roles = asked.decision?.roles ?? [];
    checkStated(nodeId, keys, claimed);
    await this.#checkAddress({ nodeId, roles }, claimed, signal);
    this.#ports.checkEvidence(peer);
    this.#ports.checkAllowed(asked.machine.identity);
    const node = await this.#ports.commits.commit(nodeId, evidenceIdentityOf(peer), signal);
    await this.#checkNotCopied(node, peer, signal);
    return this.#ticket(node, { session: peer.session, keys }, signal);
  }

  /** A new ticket for a member with its recorded key and machine, for its current roles. @throws JoinError */
  async rejoin(request: IssueRejoinTicketRequest, peer: AttestedPeer, signal: AbortSignal): Promise<Ticket> {
    const { nodeId } = verifyKey(request.key, peer.session);
    const keys = readKeys(request.keys);
    const claimed = parseAddress(request.address);
    checkStated(nodeId, keys, claimed);
    const node = await this.#member(nodeId, signal);
    const { identity } = checkMachine(node, peer);
    this.#ports.checkEvidence(peer);
    this.#ports.checkAllowed(identity);
    await this.#checkNotCopied(node, peer, signal);
    await this.#checkAddress(node, claimed, signal);
    return this.#ticket(node, { session: peer.session, keys }, signal);
  }

  /** Checks that the machine is the one that joined: not a copy, and not restored from a copy. */
  async #checkNotCopied(node: NodeRecord, peer: AttestedPeer, signal: AbortSignal): Promise<void> {
    checkLockCounter(node, peer);
    await this.#ports.clockObservations.record(node, peer, signal);
  }

  async #ticket(
    node: NodeRecord,
    to: { readonly session: Uint8Array; readonly keys: TicketKeys },
    signal: AbortSignal,
  ): Promise<Ticket> {
    const { facts, signer } = this.#ports;
    const [cluster, settings, documents, controlPlanes] = await Promise.all([
      facts.cluster(signal),
      facts.settings(signal),
      facts.ownerDocuments(signal),
      facts.controlPlanes(signal),
    ]);
    const { nodeId, name, roles, labels, taints = [] } = node;
    await this.#reserve(node, parseAddress(to.keys.address), signal);
    // The signer verifies everything that the machine sent. Only the session value comes from this process.
    const { $typeName: _, ...statement } = to.keys;
    const evidence = statement.evidence.map(({ variant, document }) => ({ variant, document }));
    const request = { ...statement, evidence, nodeId, session: to.session };
    const { $typeName: _name, controlPlaneKeys, ...signed } = await signer.signMember(request, signal);
    return {
      ...signed,
      nodeId,
      nodeName: name,
      clusterId: cluster.clusterId,
      clusterName: cluster.clusterName,
      clusterCaPem: cluster.caPem,
      epoch: BigInt(cluster.epoch),
      roles,
      labels,
      taints,
      controlPlanes: [...controlPlanes],
      settings: Buffer.from(canonicalJson(settings), 'utf8'),
      ...documents,
      ...(controlPlaneKeys === undefined ? {} : { controlPlaneKeys: sealedKeysOf(controlPlaneKeys) }),
    };
  }

  /**
   * Reserves the address of a control plane, so that no other node gets a certificate for it, even while the control
   * plane is off.
   * @throws JoinError
   */
  async #reserve({ nodeId, roles }: NodeRecord, address: string, signal: AbortSignal): Promise<void> {
    if (!isControlPlane(roles) || (await reserveAddress(this.#ports.etcd, { nodeId, address }, signal)))
      return;
    const doing = `issuing ticket to ${nodeId}`;
    throw new JoinError('join-address-taken', `${doing}: another node reserved ${address} in the meantime`);
  }

  async #member(nodeId: string, signal: AbortSignal): Promise<NodeRecord> {
    const doing = `renewing ticket of ${nodeId}`;
    const { record: node } = await records.node.read(this.#ports.etcd, records.node.key(nodeId), signal);
    if (node === undefined)
      throw new JoinError('join-not-member', `${doing}: no member is recorded with this key`);
    if (node.state === 'DECOMMISSIONED')
      throw new JoinError('join-decommissioned', `${doing}: node ${node.name} was decommissioned`);
    if (node.state !== 'UP') throw new JoinError('join-not-member', `${doing}: its state is ${node.state}`);
    return node;
  }

  /** The stored request of the machine with its decision. @throws JoinError `join-not-admitted` */
  async #request(nodeId: string, signal: AbortSignal): Promise<JoinRecord> {
    const { record } = await records.join.read(this.#ports.etcd, records.join.key(nodeId), signal);
    if (record !== undefined) return record;
    throw new JoinError('join-not-admitted', `issuing ticket to ${nodeId}: it has not requested admission`);
  }

  /** No node may have the address of another node, or of the Kubernetes API. @throws JoinError */
  async #checkAddress(
    { nodeId, roles }: Pick<NodeRecord, 'nodeId' | 'roles'>,
    claimed: string,
    signal: AbortSignal,
  ): Promise<void> {
    const settings = await this.#ports.facts.settings(signal);
    const why = whyAddressReserved(claimed, settings, { servesApi: isControlPlane(roles) });
    if (why !== undefined)
      throw new JoinError('join-address-invalid', `issuing ticket to ${nodeId}: ${claimed}: ${why}`);
    const holder = await this.#ports.facts.nodeIdAt(claimed, signal);
    if (holder !== undefined && holder !== nodeId)
      throw new JoinError(
        'join-address-taken',
        `issuing ticket to ${nodeId}: ${claimed} belongs to ${holder}`,
      );
  }
}

/** The keys that the signer sealed, as a message of the contract with the machine. */
function sealedKeysOf({ encapsulatedKey, ephemeralPublicKey, nonce, ciphertext }: Sealed): Sealed {
  return { encapsulatedKey, ephemeralPublicKey, nonce, ciphertext };
}

/**
 * The TPM counts locks. A higher counter than at the join means that the machine was wiped and locked again
 * since.
 */
function checkLockCounter({ nodeId, admission }: NodeRecord, peer: AttestedPeer): void {
  const expected = admission?.lockCounter;
  if (expected === undefined) return;
  const actual = lockCounterOf(peer)?.toString() ?? 'none';
  if (actual !== expected)
    throw new JoinError(
      'join-locked-again',
      `issuing ticket to ${nodeId}: lock counter ${actual}, recorded ${expected}`,
      {
        details: { expected, actual },
      },
    );
}

/**
 * A member is identified by its key and by the machine that was admitted with it.
 * @returns the recorded machine
 */
function checkMachine({ nodeId, admission }: NodeRecord, peer: AttestedPeer): MachineRecord {
  const { identity, variant } = evidenceIdentityOf(peer);
  if (admission === undefined)
    throw new JoinError(
      'join-identity-changed',
      `renewing ticket of ${nodeId}: no machine is recorded for it`,
    );
  if (!isSameMachine(admission, evidenceIdentityOf(peer)))
    throw new JoinError(
      'join-identity-changed',
      `renewing ticket of ${nodeId}: its key was admitted on machine ${admission.identity} (${admission.variant}), but the caller is machine ${identity} (${variant})`,
    );
  return admission;
}

/**
 * Checks that the statement has the checked address, because the signer uses the address of the statement.
 */
function checkStated(nodeId: string, keys: TicketKeys, claimed: string): void {
  if (parseAddress(keys.address) === claimed) return;
  const stated = JSON.stringify(keys.address.slice(0, 64));
  throw new JoinError(
    'join-address-invalid',
    `issuing ticket to ${nodeId} at ${claimed}: its statement has the address ${stated}`,
  );
}

/** Checks sizes only; the signer verifies the content. @throws JoinError `join-keys-invalid` */
function readKeys(keys: TicketKeys | undefined): TicketKeys {
  const isSized =
    keys !== undefined &&
    [keys.kubeletClientCsr, keys.kubeletServingCsr].every(
      ({ length }) => length > 0 && length <= MAX_CSR_BYTES,
    ) &&
    keys.sealingPublicKey.length <= MAX_SPKI_BYTES &&
    keys.signature.length === 64 &&
    keys.roles.length <= MAX_ROLES &&
    keys.roles.every(({ length }) => length <= MAX_ROLE_CHARS) &&
    keys.nodeCertificatePem.length <= MAX_PEM_BYTES &&
    keys.enrolment.length <= MAX_ENROLMENT_BYTES &&
    keys.evidence.length > 0 &&
    keys.evidence.length <= MAX_EVIDENCE &&
    keys.evidence.every(({ document }) => document.length <= MAX_EVIDENCE_BYTES);
  if (!isSized)
    throw new JoinError('join-keys-invalid', 'reading the keys for a ticket: missing or too large');
  return keys;
}
