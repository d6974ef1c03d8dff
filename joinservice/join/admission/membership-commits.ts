import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { absent, put, type KeySpace } from '../../../internal/etcd/index.ts';
import type { Readable } from '../../../internal/event/index.ts';
import { nodeNameKey, records, type JoinRecord, type NodeRecord } from '../../../internal/records/index.ts';
import { isSameMachine, type EvidenceIdentity } from '../../evidence/index.ts';
import { describeMachine } from './decision-audit.ts';
import { attestationKeyOf, nodeRecordOf } from './join-record.ts';
import type { OwnerDocuments } from '../../ownerdocs/index.ts';
import type { Applicant } from './applicant.ts';
import { JoinError } from '../errors.ts';
import type { JoinFeed } from '../requests/join-feed.ts';
import { requireConfiguration, type ActiveConfiguration } from './active-configuration.ts';
import { decideJoin } from './decide-join.ts';
import { readApplicantRecords, type CheckedRecords } from './applicant-records.ts';

const TRIES = 16;

export interface MembershipCommitsPorts {
  readonly etcd: KeySpace;
  readonly audit: AuditLog;
  readonly feed: JoinFeed;
  readonly configuration: Readable<ActiveConfiguration>;
  /** What owners have signed. */
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  /** The node that decides: for the audit. */
  readonly nodeId: string;
}

/** Makes members of machines that were admitted: node, name, identity, request and audit in one transaction. */
export class MembershipCommits {
  readonly #ports: MembershipCommitsPorts;

  constructor(ports: MembershipCommitsPorts) {
    this.#ports = ports;
  }

  /**
   * Makes an admitted machine a member: checks everything again, then one transaction. The same machine that asks again
   * gets the membership that is there.
   */
  async commit(nodeId: string, evidence: EvidenceIdentity, signal: AbortSignal): Promise<NodeRecord> {
    for (let tries = 0; tries < TRIES; tries++) {
      const active = requireConfiguration(this.#ports.configuration);
      const { policy } = active;
      const nowMs = this.#ports.clock.nowMs();
      const applicant = await this.#admitted(nodeId, evidence, { nowMs, signal });
      const onRecord = await readApplicantRecords({ ...this.#ports, nowMs }, applicant, { ...active, signal });
      const decision = decideJoin(applicant, onRecord, { policy, nowMs });
      if (decision.kind === 'member') {
        if (nowMs > (onRecord.join?.decision?.expiresMs ?? 0))
          throw new JoinError(
            'join-ticket-used',
            `ticketing ${nodeId}: it is node ${decision.node.name} already`,
          );
        return decision.node;
      }
      if (decision.kind === 'wait')
        throw new JoinError('join-not-admitted', `ticketing ${nodeId}: ${decision.why}`);
      if (decision.kind === 'refuse')
        throw new JoinError(decision.code, `ticketing ${nodeId}: ${decision.why}`);
      const node = nodeRecordOf(applicant, decision.assignment, nowMs);
      if (await this.#mint(node, { onRecord, applicant, nowMs }, signal)) return node;
    }
    throw new JoinError('join-busy', `ticketing ${nodeId}: ${TRIES} tries were overtaken`);
  }

  /** The request that was admitted, if this is the machine that was. */
  async #admitted(
    nodeId: string,
    evidence: EvidenceIdentity,
    at: { readonly nowMs: number; readonly signal: AbortSignal },
  ): Promise<Applicant> {
    const key = records.join.key(nodeId);
    const entry = await this.#ports.etcd.get(key, { signal: at.signal });
    const join = entry === undefined ? undefined : records.join.decode(key, entry.value);
    if (join === undefined || join.state === 'pending')
      throw new JoinError('join-not-admitted', `ticketing ${nodeId}: ${join?.state ?? 'no request'}`);
    const { machine, claimed, pubKey } = join;
    if (!isSameMachine(machine, evidence))
      throw new JoinError('join-identity-changed', `ticketing ${nodeId}: admitted was ${machine.identity}`);
    if (join.state === 'approved' && (join.decision?.expiresMs ?? 0) < at.nowMs)
      throw new JoinError('join-admission-expired', `ticketing ${nodeId}`);
    // Its clock was judged when it asked; by now it is this session that counts.
    const { lockCounter } = evidence;
    return {
      nodeId,
      machine: { ...machine, ...(lockCounter === undefined ? {} : { lockCounter: lockCounter.toString() }) },
      claimed: { ...claimed, clockOffsetMs: 0 },
      pubKeyDer: Buffer.from(pubKey, 'base64'),
      facts: [],
    };
  }

  async #mint(
    node: NodeRecord,
    was: { readonly onRecord: CheckedRecords; readonly applicant: Applicant; readonly nowMs: number },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { onRecord, applicant, nowMs } = was;
    const { join } = onRecord;
    if (join === undefined) return false;
    const { nodeId } = node;
    const [nodeKey, nameKey, identityKey] = [
      records.node.key(nodeId),
      nodeNameKey(node.name),
      records.identity.key(applicant.machine.identity),
    ];
    const joined: JoinRecord = { ...join, state: 'joined', code: '', message: '', lastSeenMs: nowMs };
    const result = await this.#ports.audit.commit(
      {
        when: [
          onRecord.joinUnchanged,
          ...onRecord.removalsUnchanged,
          absent(nodeKey),
          absent(nameKey),
          absent(identityKey),
        ],
        then: [
          put(nodeKey, records.node.encode(node)),
          put(nameKey, new TextEncoder().encode(nodeId)),
          put(identityKey, records.identity.encode({ version: 1, nodeId, ...attestationKeyOf(applicant) })),
          put(records.join.key(nodeId), records.join.encode(joined)),
        ],
        facts: {
          timeMs: nowMs,
          caller: `joinservice:${this.#ports.nodeId}`,
          method: 'IssueJoinTicket',
          subject: nodeId,
          detail: {
            verdict: 'joined',
            ...describeMachine(applicant),
            name: node.name,
            roles: node.roles,
            by: node.admission?.decidedBy,
          },
        },
      },
      signal,
    );
    return result.kind === 'committed';
  }
}
