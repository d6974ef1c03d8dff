import { absent, put } from '../../../internal/etcd/index.ts';
import { nodeNameKey, records, type JoinRecord, type NodeRecord } from '../../../internal/records/index.ts';
import { isSameMachine, type EvidenceIdentity } from '../../evidence/index.ts';
import { JoinError } from '../errors.ts';
import type { Applicant } from './applicant.ts';
import {
  decideApplicant,
  untilWritten,
  type DecidedApplicant,
  type DecisionPorts,
} from './decide-applicant.ts';
import { describeMachine } from './decision-audit.ts';
import { attestationKeyOf, nodeRecordOf } from './join-record.ts';

/** Makes admitted machines members: node, name, identity, request and audit entry in one transaction. */
export class MembershipCommits {
  readonly #ports: DecisionPorts;

  constructor(ports: DecisionPorts) {
    this.#ports = ports;
  }

  /**
   * Decides again about an admitted machine and makes it a member. If the machine is a member already, because it
   * repeats the call, it gets its existing membership.
   * @throws JoinError
   */
  async commit(nodeId: string, evidence: EvidenceIdentity, signal: AbortSignal): Promise<NodeRecord> {
    const doing = `issuing ticket to ${nodeId}`;
    return untilWritten(doing, async () => {
      const applicant = await this.#admittedApplicant(nodeId, evidence, signal);
      const decided = await decideApplicant(this.#ports, applicant, signal);
      const { decision, onRecord, nowMs } = decided;
      switch (decision.kind) {
        case 'member':
          if (nowMs <= (onRecord.join?.decision?.expiresMs ?? 0)) return decision.node;
          throw new JoinError('join-ticket-used', `${doing}: it is already node ${decision.node.name}`);
        case 'wait':
          throw new JoinError('join-not-admitted', `${doing}: ${decision.why}`);
        case 'refuse':
          throw new JoinError(decision.code, `${doing}: ${decision.why}`);
        case 'admit': {
          const node = nodeRecordOf(applicant, decision.assignment, nowMs);
          return (await this.#write(node, applicant, decided, signal)) ? node : undefined;
        }
      }
    });
  }

  /** The applicant of a recorded request with a decision, if the evidence comes from the same machine. */
  async #admittedApplicant(
    nodeId: string,
    evidence: EvidenceIdentity,
    signal: AbortSignal,
  ): Promise<Applicant> {
    const doing = `issuing ticket to ${nodeId}`;
    const { etcd, clock } = this.#ports;
    const { record: join } = await records.join.read(etcd, records.join.key(nodeId), signal);
    if (join === undefined || join.state === 'pending')
      throw new JoinError('join-not-admitted', `${doing}: its request is ${join?.state ?? 'not stored'}`);
    const { machine, claimed, pubKey } = join;
    if (!isSameMachine(machine, evidence))
      throw new JoinError(
        'join-identity-changed',
        `${doing}: ${machine.identity} was admitted, but the evidence comes from another machine`,
      );
    if (join.state === 'approved' && (join.decision?.expiresMs ?? 0) < clock.nowMs())
      throw new JoinError('join-admission-expired', doing);
    const { lockCounter } = evidence;
    return {
      nodeId,
      machine: { ...machine, ...(lockCounter === undefined ? {} : { lockCounter: lockCounter.toString() }) },
      claimed: { ...claimed, clockOffsetMs: 0 }, // checked when the machine requested admission
      pubKeyDer: Buffer.from(pubKey, 'base64'),
      facts: [],
    };
  }

  /** Stores the membership. Returns false if another writer was faster. */
  async #write(
    node: NodeRecord,
    applicant: Applicant,
    { onRecord, nowMs }: DecidedApplicant,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { join } = onRecord;
    if (join === undefined) return false;
    const { nodeId, name, roles, admission } = node;
    const keys = [
      records.node.key(nodeId),
      nodeNameKey(name),
      records.identity.key(applicant.machine.identity),
    ] as const;
    const joined: JoinRecord = { ...join, state: 'joined', code: '', message: '', lastSeenMs: nowMs };
    const result = await this.#ports.audit.commit(
      {
        when: [onRecord.joinUnchanged, ...onRecord.removalsUnchanged, ...keys.map(absent)],
        then: [
          records.node.put(keys[0], node),
          put(keys[1], new TextEncoder().encode(nodeId)),
          records.identity.put(keys[2], { version: 1, nodeId, ...attestationKeyOf(applicant) }),
          records.join.put(records.join.key(nodeId), joined),
        ],
        facts: {
          timeMs: nowMs,
          caller: `joinservice:${this.#ports.nodeId}`,
          method: 'IssueJoinTicket',
          subject: nodeId,
          detail: { verdict: 'joined', ...describeMachine(applicant), name, roles, by: admission?.decidedBy },
        },
      },
      signal,
    );
    return result.kind === 'committed';
  }
}
