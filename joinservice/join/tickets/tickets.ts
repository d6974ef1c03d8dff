import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { MAX_EVIDENCE_BYTES } from '../../../internal/attestation/index.ts';
import { lockCounterOf } from '../../../internal/attestation/tpm/index.ts';
import { canonicalJson } from '../../../internal/config/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import {
  records,
  type JoinRecord,
  type MachineRecord,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import { evidenceIdentityOf, isSameMachine, whyAddressReserved } from '../../evidence/index.ts';
import type {
  IssueJoinTicketRequest,
  IssueRejoinTicketRequest,
  TicketKeys,
  TicketSchema,
} from '../../joinproto/gen/join_pb.js';
import type { MemberCredentials, MemberRequest } from '../../signer/index.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import type { MembershipCommits } from '../admission/membership-commits.ts';
import { JoinError } from '../errors.ts';
import { parseAddress, verifyKey } from '../stream/read-hello.ts';
import type { ClockObservations } from '../machine/clock-observations.ts';

const MAX_CSR_BYTES = 8192;
const MAX_SPKI_BYTES = 256;
const MAX_PEM_BYTES = 16 * 1024;
const MAX_ENROLMENT_BYTES = 16 * 1024;
const MAX_ROLES = 8;
const MAX_ROLE = 64;
/** The best kind that a machine has, and its key. */
const MAX_EVIDENCE = 2;

/** Who signs. The process that strangers reach holds no key of the cluster. */
export interface TicketSigner {
  signMember(request: MemberRequest, signal: AbortSignal): Promise<MemberCredentials>;
}

export interface TicketPorts {
  readonly etcd: KeySpace;
  readonly commits: MembershipCommits;
  readonly facts: ClusterFacts;
  readonly signer: TicketSigner;
  readonly clockObservations: ClockObservations;
  /**
   * Throws unless the evidence of this session was judged by the policy that is in force now, and shows that its machine
   * is bound to this cluster.
   */
  readonly checkEvidence: (peer: AttestedPeer) => void;
  /** Throws unless the policy that is in force now lets this machine be a member. */
  readonly checkAllowed: (identity: string) => void;
}

type Ticket = MessageInitShape<typeof TicketSchema>;

/** Makes tickets: checks first, mints last. What is written down before the signature is the membership itself. */
export class Tickets {
  readonly #ports: TicketPorts;

  constructor(ports: TicketPorts) {
    this.#ports = ports;
  }

  /** The commit of an admission. */
  async join(request: IssueJoinTicketRequest, peer: AttestedPeer, signal: AbortSignal): Promise<Ticket> {
    const { nodeId } = verifyKey(request.key, peer.session);
    if (request.joinId !== nodeId)
      throw new JoinError('join-ticket-other-key', `ticketing ${request.joinId.slice(0, 64)} to ${nodeId}`);
    const keys = readKeys(request.keys);
    const asked = await this.#request(nodeId, signal);
    const claimed = parseAddress(asked.claimed.address);
    const roles = asked.decision?.roles ?? [];
    checkStated(nodeId, keys, claimed);
    await this.#checkAddress({ nodeId, roles }, claimed, signal);
    this.#ports.checkEvidence(peer);
    this.#ports.checkAllowed(asked.machine.identity);
    const node = await this.#ports.commits.commit(nodeId, evidenceIdentityOf(peer), signal);
    await this.#checkSame(node, peer, signal);
    return this.#ticket(node, { session: peer.session, keys }, signal);
  }

  /** A member with the key on record and evidence of the machine on record: roles as they are now. */
  async rejoin(request: IssueRejoinTicketRequest, peer: AttestedPeer, signal: AbortSignal): Promise<Ticket> {
    const { nodeId } = verifyKey(request.key, peer.session);
    const keys = readKeys(request.keys);
    const claimed = parseAddress(request.address);
    checkStated(nodeId, keys, claimed);
    const node = await this.#member(nodeId, signal);
    const { identity } = checkMachine(node, peer);
    this.#ports.checkEvidence(peer);
    this.#ports.checkAllowed(identity);
    await this.#checkSame(node, peer, signal);
    await this.#checkAddress(node, claimed, signal);
    return this.#ticket(node, { session: peer.session, keys }, signal);
  }

  /** The very machine that took its ticket, in the life that it took it in: neither a copy nor put back. */
  async #checkSame(node: NodeRecord, peer: AttestedPeer, signal: AbortSignal): Promise<void> {
    checkLockCounter(node, peer);
    await this.#ports.clockObservations.record(node, peer, signal);
  }

  async #ticket(
    node: NodeRecord,
    asked: { readonly session: Uint8Array; readonly keys: TicketKeys },
    signal: AbortSignal,
  ): Promise<Ticket> {
    const { facts, signer } = this.#ports;
    const [cluster, settings, controlPlanes] = await Promise.all([
      facts.cluster(signal),
      facts.settings(signal),
      facts.controlPlanes(signal),
    ]);
    const { nodeId, name, roles, labels } = node;
    // All but the session is the machine's word, which the signer verifies; the session is what this end has seen.
    const { $typeName: _, timeMs, nodeCertificatePem: nodeCertPem, ...statement } = asked.keys;
    const signed = await signer.signMember(
      {
        ...statement,
        nodeCertPem,
        nodeId,
        session: asked.session,
        timeMs: Number(BigInt.asIntN(53, timeMs)),
      },
      signal,
    );
    return {
      nodeId,
      nodeName: name,
      clusterId: cluster.clusterId,
      clusterName: cluster.clusterName,
      clusterCaPem: cluster.caPem,
      epoch: BigInt(cluster.epoch),
      nodeCertificatePem: signed.nodeCertPem,
      roles,
      labels,
      controlPlanes: [...controlPlanes],
      settings: Buffer.from(canonicalJson(settings), 'utf8'),
      kubernetesCaPem: signed.kubernetesCaPem,
      kubernetesClientsCaPem: signed.kubernetesClientsCaPem,
      kubeletClientCertificatePem: signed.kubeletClientCertPem,
      kubeletServingCertificatePem: signed.kubeletServingCertPem,
      ...(signed.controlPlaneKeys === undefined ? {} : { controlPlaneKeys: signed.controlPlaneKeys }),
    };
  }

  async #member(nodeId: string, signal: AbortSignal): Promise<NodeRecord> {
    const key = records.node.key(nodeId);
    const entry = await this.#ports.etcd.get(key, { signal });
    const node = entry === undefined ? undefined : records.node.decode(key, entry.value);
    if (node === undefined) throw new JoinError('join-not-member', `ticketing ${nodeId} again`);
    if (node.state === 'DECOMMISSIONED')
      throw new JoinError('join-decommissioned', `ticketing ${nodeId} again: it is node ${node.name}`);
    if (node.state !== 'UP')
      throw new JoinError('join-not-member', `ticketing ${nodeId} again: it is ${node.state}`);
    return node;
  }

  /** What the machine said when it asked to be admitted, and what was decided. */
  async #request(nodeId: string, signal: AbortSignal): Promise<JoinRecord> {
    const key = records.join.key(nodeId);
    const entry = await this.#ports.etcd.get(key, { signal });
    if (entry === undefined) throw new JoinError('join-not-admitted', `ticketing ${nodeId}: no request`);
    return records.join.decode(key, entry.value);
  }

  /** Or the API server would talk to one node and take it for another, and others to a node and take it for the API. */
  async #checkAddress(
    { nodeId, roles }: Pick<NodeRecord, 'nodeId' | 'roles'>,
    claimed: string,
    signal: AbortSignal,
  ): Promise<void> {
    const settings = await this.#ports.facts.settings(signal);
    const why = whyAddressReserved(claimed, settings, { servesApi: isControlPlane(roles) });
    if (why !== undefined)
      throw new JoinError('join-address-invalid', `ticketing ${nodeId}: ${claimed}: ${why}`);
    const holder = await this.#ports.facts.nodeIdAt(claimed, signal);
    if (holder !== undefined && holder !== nodeId)
      throw new JoinError('join-address-taken', `ticketing ${nodeId}: ${claimed} belongs to ${holder}`);
  }
}

/** Its TPM counts locks: one more than at the commit, and the machine was wiped and bound anew in between. */
function checkLockCounter({ nodeId, admission }: NodeRecord, peer: AttestedPeer): void {
  const expected = admission?.lockCounter;
  if (expected === undefined) return;
  const actual = lockCounterOf(peer)?.toString() ?? 'none';
  if (actual !== expected)
    throw new JoinError(
      'join-locked-again',
      `ticketing ${nodeId}: lock counter ${actual}, on record ${expected}`,
      {
        details: { expected, actual },
      },
    );
}

/** A key is a member's only together with the machine that it was admitted with, which is answered. */
function checkMachine({ nodeId, admission }: NodeRecord, peer: AttestedPeer): MachineRecord {
  const { identity, variant } = evidenceIdentityOf(peer);
  if (admission === undefined)
    throw new JoinError('join-identity-changed', `ticketing ${nodeId} again: no machine is on record for it`);
  if (!isSameMachine(admission, evidenceIdentityOf(peer)))
    throw new JoinError(
      'join-identity-changed',
      `ticketing ${nodeId} again: ${identity} (${variant}) shows the key of ${admission.identity} (${admission.variant})`,
    );
  return admission;
}

/** What the machine has signed for is where it is: the signer goes by its statement. */
function checkStated(nodeId: string, keys: TicketKeys, claimed: string): void {
  if (parseAddress(keys.address) === claimed) return;
  const stated = JSON.stringify(keys.address.slice(0, 64));
  throw new JoinError(
    'join-address-invalid',
    `ticketing ${nodeId} at ${claimed}: its statement says ${stated}`,
  );
}

/** Sizes; what they mean is for the signer to verify. */
function readKeys(keys: TicketKeys | undefined): TicketKeys {
  const isSized =
    keys !== undefined &&
    [keys.kubeletClientCsr, keys.kubeletServingCsr].every(
      ({ length }) => length > 0 && length <= MAX_CSR_BYTES,
    ) &&
    keys.sealingPublicKey.length <= MAX_SPKI_BYTES &&
    keys.signature.length === 64 &&
    keys.roles.length <= MAX_ROLES &&
    keys.roles.every(({ length }) => length <= MAX_ROLE) &&
    keys.nodeCertificatePem.length <= MAX_PEM_BYTES &&
    keys.enrolment.length <= MAX_ENROLMENT_BYTES &&
    keys.evidence.length > 0 &&
    keys.evidence.length <= MAX_EVIDENCE &&
    keys.evidence.every(({ document }) => document.length <= MAX_EVIDENCE_BYTES);
  if (!isSized) throw new JoinError('join-keys-invalid', 'reading the keys for a ticket');
  return keys;
}
