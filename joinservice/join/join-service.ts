import type { AttestedPeer, Rules } from '../../internal/atls/index.ts';
import {
  AttestationError,
  checkRegisters,
  machineIdentityText,
  withLock,
} from '../../internal/attestation/index.ts';
import { Activations } from '../../internal/attestation/enrol/index.ts';
import type { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { DOCUMENTS_PREFIX } from '../../internal/records/index.ts';
import { FairShares, implement, type Implementation, type TlsIdentity } from '../../internal/rpc/index.ts';
import type { Authority } from '../authority/index.ts';
import type { NodeView } from '../curator/index.ts';
import { CollateralSource, readAttestation, type AttestationInForce } from '../evidence/index.ts';
import { Join } from '../joinproto/gen/join_pb.js';
import { Admissions } from './admissions.ts';
import { Budget } from './budget.ts';
import { ClusterFacts } from './cluster-facts.ts';
import { Commits } from './commits.ts';
import { JoinError } from './errors.ts';
import { JoinFeed } from './join-feed.ts';
import { joinHandlers } from './join-handlers.ts';
import { checkAllowed, checkPolicyInForce, MachineIdentifier } from './machine.ts';
import { MemberKeys } from './member-keys.ts';
import { runSweep } from './open-requests.ts';
import { PolicySource } from './policy-source.ts';
import { Refusals } from './refusals.ts';
import { Sightings } from './sightings.ts';
import { Tickets, type TicketSigner } from './tickets.ts';

/** Machines that are decided about, or get their certificates, at the same time; and those that wait for that. */
const TURNSTILE = { places: 16, waiting: 4_096 };
/** Machines that are asked who they are at the same time; fewer than challenges may be open. */
const IDENTIFYING = { places: 256, waiting: 4_096 };
/** Audit entries and requests that strangers can cause on one node. */
const STRANGERS = { size: 1_200, periodMs: 10 * 60_000 };

export interface JoinServiceOptions {
  /** The cluster's part of etcd. */
  readonly etcd: KeySpace;
  /** The one of this process. */
  readonly audit: AuditLog;
  readonly signer: TicketSigner;
  /** What owners have signed. */
  readonly authority: Authority;
  /** The node's certificate of the cluster CA and its key. */
  readonly identity: TlsIdentity;
  readonly clusterId: string;
  readonly own: { readonly nodeId: string; readonly address: string };
  readonly listNodes: (signal: AbortSignal) => Promise<readonly NodeView[]>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Admission on one control-plane node.
 *
 * ```
 * configuration/current ─▶ PolicySource ─▶ rules() of attested TLS, policy of decisions
 * identities/           ─▶ MemberKeys   ─┤
 * attestation/          ─▶ CollateralSource
 * joins/                ─▶ JoinFeed ─▶ machines that wait
 * ```
 */
export class JoinService {
  readonly service: Implementation<AttestedPeer>;
  /** Also for what attested TLS refuses. */
  readonly refusals: Refusals;
  readonly #policy: PolicySource;
  readonly #feed: JoinFeed;
  readonly #keys: MemberKeys;
  readonly #collateral: CollateralSource;
  readonly #clusterId: string;
  readonly #ports: Pick<JoinServiceOptions, 'etcd' | 'clock' | 'log'>;
  readonly #attestation = new EventValue<AttestationInForce>();

  constructor(options: JoinServiceOptions) {
    const { etcd, audit, authority, clock, log, own } = options;
    this.#clusterId = options.clusterId;
    this.#ports = { etcd, clock, log };
    this.#feed = new JoinFeed({ etcd, log: log.child('joins') });
    this.#keys = new MemberKeys({ etcd, log: log.child('keys') });
    this.#collateral = new CollateralSource({ etcd, log: log.child('collateral') });
    this.#policy = new PolicySource({
      etcd,
      log: log.child('policy'),
      onSwap: ({ config }) => {
        this.#attestation.set(readAttestation(config));
        this.#feed.wakeAll();
      },
    });
    const configuration = this.#policy.current;
    const budget = new Budget({ clock, ...STRANGERS });
    const { nodeId } = own;
    const deciding = { etcd, audit, feed: this.#feed, configuration, authority, clock, nodeId };
    this.refusals = new Refusals({ audit, clock, budget, nodeId });
    const facts = new ClusterFacts({
      etcd,
      clock,
      identity: options.identity,
      own,
      listNodes: options.listNodes,
    });
    const identifier = new MachineIdentifier({
      trust: () => this.#trust(),
      clock,
      activations: new Activations(),
    });
    const commits = new Commits(deciding);
    const tickets = new Tickets({
      etcd,
      commits,
      facts,
      signer: options.signer,
      sightings: new Sightings({ etcd, clock }),
      checkEvidence: (peer) => this.#checkEvidence(peer),
      checkAllowed: (identity) => checkAllowed(identity, this.#trust()),
    });
    const parts = {
      facts,
      identifier,
      identifying: new FairShares({ ...IDENTIFYING, clock }),
      turnstile: new FairShares({ ...TURNSTILE, clock }),
      admissions: new Admissions({ ...deciding, budget }),
      tickets,
      refusals: this.refusals,
      feed: this.#feed,
      clock,
      log,
    };
    this.service = implement(Join, joinHandlers(parts));
  }

  /** For attested TLS, per connection. Throws `join-not-ready` until a configuration is in force. */
  rules(): Rules {
    const { policy, lockPcr } = this.#inForce();
    // Before its commit a machine is bound to nobody, or to this cluster by an earlier try; to another one never.
    const locked = withLock(policy, lockPcr, { shows: 'either', clusterId: this.#clusterId });
    return {
      policy: locked,
      collateral: { ...this.#collateral.current, tpm: { attestationKeys: this.#keys.known } },
    };
  }

  /**
   * A session may be an hour old: what passed then need not pass now. And whoever gets certificates shows the lock; before
   * its admission a machine may show that it is nobody's.
   */
  #checkEvidence({ measurements, machineIdentity, verdict }: AttestedPeer): void {
    const { policy, lockPcr } = this.#inForce();
    checkPolicyInForce(verdict, policy, machineIdentity);
    try {
      checkRegisters(
        measurements,
        withLock(policy, lockPcr, { shows: 'locked', clusterId: this.#clusterId }),
        [],
      );
    } catch (cause) {
      if (!(cause instanceof AttestationError)) throw cause;
      throw new JoinError('join-not-locked', `ticketing ${machineIdentityText(machineIdentity)}`, { cause });
    }
  }

  /** Unset until the first usable configuration. */
  get attestation(): Readable<AttestationInForce> {
    return this.#attestation;
  }

  async run(signal: AbortSignal): Promise<void> {
    const feed = this.#feed;
    await Promise.all([
      this.#policy.run(signal),
      feed.run(signal),
      this.#keys.run(signal),
      this.#collateral.run(signal),
      runSweep({ ...this.#ports, feed }, signal),
      wakeWithDocuments(this.#ports.etcd, feed, signal),
    ]);
  }

  #trust() {
    const { endorsements, machines, listed, policy } = this.#inForce();
    return { endorsements, machines, listed, profile: policy.profile ?? ('identity' as const) };
  }

  #inForce(): AttestationInForce {
    const now = this.#attestation.peek();
    if (!now.set) throw new JoinError('join-not-ready', 'judging evidence: no configuration is in force');
    return now.value;
  }
}

/** Machines that wait for an owner's signature are decided about again when one comes. */
async function wakeWithDocuments(etcd: KeySpace, feed: JoinFeed, signal: AbortSignal): Promise<void> {
  for await (const event of etcd.watch(DOCUMENTS_PREFIX, { signal }))
    if (event.kind === 'changes') feed.wakeAll();
}
