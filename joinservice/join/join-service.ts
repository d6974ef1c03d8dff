import type { AttestedPeer, Rules } from '../../internal/atls/index.ts';
import { DEFAULT_LOCK_PCR, withLock, type Policy } from '../../internal/attestation/index.ts';
import type { EndorsementTrust } from '../../internal/attestation/enrol/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { implement, type Implementation, type TlsIdentity } from '../../internal/rpc/index.ts';
import type { AuditLog } from '../audit/index.ts';
import type { NodeView } from '../curator/index.ts';
import { Join } from '../joinproto/gen/join_pb.js';
import { Admissions } from './admissions.ts';
import { ClusterFacts } from './cluster-facts.ts';
import { JoinError } from './errors.ts';
import { JoinFeed } from './join-feed.ts';
import { joinHandlers } from './join-handlers.ts';
import { MachineIdentifier } from './machine.ts';
import { MemberKeys } from './member-keys.ts';
import { PolicySource } from './policy-source.ts';
import { Tickets, type TicketSigner } from './tickets.ts';

/** What the operators' document says about evidence: which software passes, and whose hardware is vouched for. */
export interface AttestationInForce {
  readonly policy: Policy;
  readonly collateral: Omit<Rules['collateral'], 'tpm'>;
  readonly endorsements: EndorsementTrust;
}

export interface JoinServiceOptions {
  /** The cluster's part of etcd. */
  readonly etcd: KeySpace;
  /** The one of this process. */
  readonly audit: AuditLog;
  readonly signer: TicketSigner;
  /** The node's certificate of the cluster CA and its key. */
  readonly identity: TlsIdentity;
  readonly clusterId: string;
  readonly own: { readonly nodeId: string; readonly address: string };
  readonly listNodes: (signal: AbortSignal) => Promise<readonly NodeView[]>;
  /** Reads the attestation part of a configuration; throws when it is not usable, and then the old one stays. */
  readonly readAttestation: (config: ClusterConfig, version: string) => AttestationInForce;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Admission on one control-plane node.
 *
 * ```
 * configuration/current ─▶ PolicySource ─▶ rules() of attested TLS, policy of decisions
 * identities/           ─▶ MemberKeys   ─┘
 * joins/                ─▶ JoinFeed ─▶ machines that wait
 * ```
 */
export class JoinService {
  readonly service: Implementation<AttestedPeer>;
  readonly admissions: Admissions;
  readonly #policy: PolicySource;
  readonly #feed: JoinFeed;
  readonly #keys: MemberKeys;
  readonly #clusterId: string;
  #attestation: AttestationInForce | undefined;

  constructor(options: JoinServiceOptions) {
    const { etcd, audit, clock, log, own, readAttestation } = options;
    this.#clusterId = options.clusterId;
    this.#feed = new JoinFeed({ etcd, log: log.child('joins') });
    this.#keys = new MemberKeys({ etcd, log: log.child('keys') });
    this.#policy = new PolicySource({
      etcd,
      log: log.child('policy'),
      onSwap: ({ config, policy }) => {
        this.#attestation = withInventory(readAttestation(config, policy.version), config);
        this.#feed.wakeAll();
      },
    });
    const configuration = this.#policy.current;
    this.admissions = new Admissions({
      etcd,
      audit,
      feed: this.#feed,
      configuration,
      clock,
      nodeId: own.nodeId,
    });
    const facts = new ClusterFacts({
      etcd,
      clock,
      identity: options.identity,
      own,
      listNodes: options.listNodes,
    });
    const identifier = new MachineIdentifier({ trust: () => this.#trust(), clock });
    const tickets = new Tickets({ etcd, admissions: this.admissions, facts, signer: options.signer });
    const parts = { facts, identifier, admissions: this.admissions, tickets, feed: this.#feed, clock, log };
    this.service = implement(Join, joinHandlers(parts));
  }

  /** For attested TLS, per connection. Throws `join-not-ready` until a configuration is in force. */
  rules(): Rules {
    const { policy, collateral } = this.#inForce();
    // Before its commit a machine is bound to nobody, or to this cluster by an earlier try; to another one never.
    const locked = withLock(policy, DEFAULT_LOCK_PCR, { shows: 'either', clusterId: this.#clusterId });
    return { policy: locked, collateral: { ...collateral, tpm: { attestationKeys: this.#keys.known } } };
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#policy.run(signal), this.#feed.run(signal), this.#keys.run(signal)]);
  }

  #trust() {
    const { endorsements, policy } = this.#inForce();
    return { endorsements, profile: policy.profile ?? 'identity' };
  }

  #inForce(): AttestationInForce {
    if (this.#attestation === undefined)
      throw new JoinError('join-not-ready', 'judging evidence: no configuration is in force');
    return this.#attestation;
  }
}

/** Whom the operators list by name needs no manufacturer that vouches. */
function withInventory(attestation: AttestationInForce, { join }: ClusterConfig): AttestationInForce {
  const listed = join.inventory.flatMap(({ identity }) =>
    identity.startsWith('tpm-ek:') ? [identity.slice('tpm-ek:'.length)] : [],
  );
  const { endorsements } = attestation;
  const pinnedKeys = new Set([...endorsements.pinnedKeys, ...listed]);
  return { ...attestation, endorsements: { ...endorsements, pinnedKeys } };
}
