import type { AttestedPeer, EvidenceRules } from '../../internal/atls/index.ts';
import {
  AttestationError,
  checkRegisters,
  machineIdentityText,
  withLockRegister,
} from '../../internal/attestation/index.ts';
import { CredentialActivations } from '../../internal/attestation/enrolment/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { DOCUMENTS_PREFIX } from '../../internal/records/index.ts';
import { FairQueue, implement, type Implementation, type TlsIdentity } from '../../internal/rpc/index.ts';
import type { OwnerDocuments } from '../ownerdocs/index.ts';
import type { NodeView } from '../curator/index.ts';
import { readAttestation, type ActiveAttestation, type ClusterCollateral } from '../evidence/index.ts';
import { Join } from '../joinproto/gen/join_pb.js';
import { Admissions } from './admission/admissions.ts';
import { WriteBudget } from './requests/write-budget.ts';
import { ClusterFacts } from './tickets/cluster-facts.ts';
import { MembershipCommits } from './admission/membership-commits.ts';
import { JoinError } from './errors.ts';
import { JoinFeed } from './requests/join-feed.ts';
import { DiskShares, type DiskSharePorts } from './disk-shares.ts';
import { joinHandlers } from './join-handlers.ts';
import { checkAllowed, checkPolicyCurrent, MachineIdentifier } from './machine/machine-identifier.ts';
import { KnownAttestationKeys } from './machine/known-attestation-keys.ts';
import { runSweep } from './requests/open-requests.ts';
import { ActiveConfigurationSource } from './admission/active-configuration.ts';
import { RefusalAudit } from './requests/refusal-audit.ts';
import { ClockObservations } from './machine/clock-observations.ts';
import { Tickets, type TicketPorts } from './tickets/tickets.ts';

/**
 * Limits of the work on decisions and tickets: the number of machines that are served at the same time, and the
 * number of machines that wait for a slot.
 */
const WORK_SLOTS = { maxActive: 16, maxWaiting: 4_096 };
/** Limits of TPM challenges: fewer at the same time than `CredentialActivations` keeps open. */
const CHALLENGE_SLOTS = { maxActive: 256, maxWaiting: 4_096 };
/** Limits of audit entries and requests that machines without an admission can cause one node to write. */
const UNADMITTED_WRITES = { size: 1_200, periodMs: 10 * 60_000 };

export interface JoinServiceOptions {
  /** The state etcd, below the prefix of the cluster. */
  readonly etcd: KeySpace;
  /** The log of decisions of this process. */
  readonly audit: AuditLog;
  readonly signer: DiskSharePorts['signer'] & TicketPorts['signer'];
  readonly ownerDocs: OwnerDocuments;
  /** The node certificate, issued by the cluster CA, and its key. */
  readonly identity: TlsIdentity;
  /** The cluster CAs that this node trusts, a PEM bundle. */
  readonly clusterCaPem: string;
  readonly clusterId: string;
  readonly collateral: Pick<ClusterCollateral, 'current'>;
  readonly own: { readonly nodeId: string; readonly address: string };
  readonly listNodes: (signal: AbortSignal) => Promise<readonly NodeView[]>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The join service of one control-plane node: the contract `Join` and the watches it needs.
 *
 * ```
 * configuration/current ─▶ ActiveConfigurationSource ─▶ rules() of attested TLS, policy of decisions
 * identities/           ─▶ KnownAttestationKeys      ─┤
 * attestation/          ─▶ ClusterCollateral (watched by the caller)
 * joins/                ─▶ JoinFeed ─▶ streams of waiting machines
 * ```
 */
export class JoinService {
  readonly service: Implementation<AttestedPeer>;
  /** Also used for connections that attested TLS refuses. */
  readonly refusals: RefusalAudit;
  readonly #configuration: ActiveConfigurationSource;
  readonly #feed: JoinFeed;
  readonly #keys: KnownAttestationKeys;
  readonly #options: Pick<JoinServiceOptions, 'etcd' | 'clock' | 'log' | 'collateral' | 'clusterId'>;
  readonly #attestation = new EventValue<ActiveAttestation>();

  constructor(options: JoinServiceOptions) {
    this.#options = options;
    const { etcd, audit, ownerDocs, clock, log, own } = options;
    this.#feed = new JoinFeed({ etcd, log: log.child('joins') });
    this.#keys = new KnownAttestationKeys({ etcd, log: log.child('keys') });
    this.#configuration = new ActiveConfigurationSource({
      etcd,
      log: log.child('policy'),
      ownerDocs,
      onChange: ({ config }) => {
        this.#attestation.set(readAttestation(config));
        this.#feed.wakeAll();
      },
    });
    const configuration = this.#configuration.current;
    const budget = new WriteBudget({ clock, ...UNADMITTED_WRITES });
    const { nodeId } = own;
    const decisionPorts = { etcd, audit, feed: this.#feed, configuration, ownerDocs, clock, nodeId };
    const requests = new AuditLog({ etcd, log: 'requests' });
    this.refusals = new RefusalAudit({ requests, clock, budget, nodeId });
    const facts = new ClusterFacts(options);
    const activations = new CredentialActivations();
    const identifier = new MachineIdentifier({ trust: () => this.#trust(), clock, activations });
    const commits = new MembershipCommits(decisionPorts);
    const tickets = new Tickets({
      etcd,
      commits,
      facts,
      signer: options.signer,
      clockObservations: new ClockObservations({ etcd, clock }),
      checkEvidence: (peer) => this.#checkEvidence(peer),
      checkAllowed: (identity) => checkAllowed(identity, this.#trust()),
    });
    const checks = {
      checkAllowed: (identity: string) => checkAllowed(identity, this.#trust()),
      checkPolicy: (peer: AttestedPeer) => this.#checkPolicy(peer),
    };
    const parts = {
      facts,
      identifier,
      challengeSlots: new FairQueue({ ...CHALLENGE_SLOTS, clock }),
      workSlots: new FairQueue({ ...WORK_SLOTS, clock }),
      admissions: new Admissions({ ...decisionPorts, requests, budget }),
      tickets,
      diskShares: new DiskShares({ etcd, signer: options.signer, clock, requests, own, log, ...checks }),
      refusals: this.refusals,
      feed: this.#feed,
      clock,
      log,
    };
    this.service = implement(Join, joinHandlers(parts));
  }

  /** The rules with which attested TLS verifies a connection. @throws JoinError `join-not-ready` before the first configuration */
  rules(): EvidenceRules {
    const { policy, lockPcr } = this.#activeAttestation();
    // Before it joins, a machine is bound to no cluster, or to this one by an earlier attempt, but never to another one.
    const locked = withLockRegister(policy, lockPcr, { shows: 'either', clusterId: this.#options.clusterId });
    return {
      policy: locked,
      collateral: { ...this.#options.collateral.current, tpm: { attestationKeys: this.#keys.known } },
    };
  }

  /**
   * Verifies the evidence of a session that requests a ticket again, because the policy may have changed since the session
   * began. Also requires the lock PCR to have the value of this cluster; at the start of a session, it may have its boot value.
   * @throws JoinError `join-evidence-outdated`, `join-not-locked`
   */
  #checkEvidence(peer: AttestedPeer): void {
    const { measurements, machineIdentity } = peer;
    const { policy, lockPcr } = this.#activeAttestation();
    this.#checkPolicy(peer);
    try {
      checkRegisters(
        measurements,
        withLockRegister(policy, lockPcr, { shows: 'locked', clusterId: this.#options.clusterId }),
        [],
      );
    } catch (cause) {
      if (!(cause instanceof AttestationError)) throw cause;
      throw new JoinError('join-not-locked', `issuing ticket to ${machineIdentityText(machineIdentity)}`, {
        cause,
      });
    }
  }

  /** @throws JoinError `join-evidence-outdated` */
  #checkPolicy({ verdict, machineIdentity }: AttestedPeer): void {
    checkPolicyCurrent(verdict, this.#activeAttestation().policy, machineIdentity);
  }

  /** Unset until the first valid configuration. */
  get attestation(): Readable<ActiveAttestation> {
    return this.#attestation;
  }

  /** Runs all watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    const feed = this.#feed;
    await Promise.all([
      this.#configuration.run(signal),
      feed.run(signal),
      this.#keys.run(signal),
      runSweep({ ...this.#options, feed }, signal),
      this.#followDocuments(signal),
    ]);
  }

  /** Decides again about waiting machines, and about the stored configuration, when an owner document is stored. */
  async #followDocuments(signal: AbortSignal): Promise<void> {
    for await (const event of this.#options.etcd.watch(DOCUMENTS_PREFIX, { signal })) {
      if (event.kind !== 'changes') continue;
      this.#configuration.recheck();
      this.#feed.wakeAll();
    }
  }

  #trust() {
    const { endorsements, machines, inventory, policy } = this.#activeAttestation();
    return { endorsements, machines, inventory, profile: policy.profile ?? ('identity' as const) };
  }

  #activeAttestation(): ActiveAttestation {
    const now = this.#attestation.peek();
    if (!now.set)
      throw new JoinError('join-not-ready', 'verifying evidence: no configuration has been loaded');
    return now.value;
  }
}
