import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { put, type KeySpace, type Write } from '../../../internal/etcd/index.ts';
import type { Readable } from '../../../internal/event/index.ts';
import { records, type JoinRecord, type NodeRecord } from '../../../internal/records/index.ts';
import { describeMachine, traceFactsOf, auditVerdictOf } from './decision-audit.ts';
import { keepsStoredRecord, isWorthWriting, POLICY_ADMISSION_MS, joinRecordOf } from './join-record.ts';
import type { OwnerDocuments } from '../../ownerdocs/index.ts';
import type { Applicant } from './applicant.ts';
import type { WriteBudget } from '../requests/write-budget.ts';
import { JoinError } from '../errors.ts';
import type { JoinEntry, JoinFeed } from '../requests/join-feed.ts';
import { MachineWriteBudget } from '../requests/machine-write-budget.ts';
import { planRequestRemoval, requestsToEvict } from '../requests/open-requests.ts';
import { requireConfiguration, type ActiveConfiguration } from './active-configuration.ts';
import { decideJoin, type JoinDecision, type NodeAssignment } from './decide-join.ts';
import { readApplicantRecords, type CheckedRecords } from './applicant-records.ts';
import { mergeFacts, readTrace, traceWrite } from '../requests/join-trace.ts';

const TRIES = 16;

export interface AdmissionsPorts {
  readonly etcd: KeySpace;
  readonly audit: AuditLog;
  readonly feed: JoinFeed;
  readonly configuration: Readable<ActiveConfiguration>;
  /** What owners have signed. */
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  /** What strangers can cause to be written here. */
  readonly budget: WriteBudget;
  /** The node that decides: for the audit. */
  readonly nodeId: string;
}

export type AdmissionResult =
  | { readonly kind: 'admitted'; readonly assignment: NodeAssignment; readonly expiresMs: number }
  | { readonly kind: 'waiting'; readonly record: JoinRecord };

/** Decides about machines, and writes down what it decided: request, audit and trace in one transaction. */
export class Admissions {
  readonly #ports: AdmissionsPorts;
  readonly #machines: MachineWriteBudget;

  constructor(ports: AdmissionsPorts) {
    this.#ports = ports;
    this.#machines = new MachineWriteBudget(ports.clock);
  }

  /**
   * Answers what came of it now; throws the refusal as a `JoinError`, after it has been written down.
   * `address`: where the machine calls from.
   */
  async decide(
    { address, ...applicant }: Applicant & { readonly address: string },
    signal: AbortSignal,
  ): Promise<AdmissionResult> {
    for (let tries = 0; tries < TRIES; tries++) {
      const active = requireConfiguration(this.#ports.configuration);
      const { policy } = active;
      const nowMs = this.#ports.clock.nowMs();
      const onRecord = await readApplicantRecords({ ...this.#ports, nowMs }, applicant, { ...active, signal });
      const decision = decideJoin(applicant, onRecord, { policy, nowMs });
      if (decision.kind === 'member') return memberAgain(decision.node, nowMs);
      const record = joinRecordOf(applicant, onRecord.join, decision, nowMs);
      const written = await this.#write(applicant, { onRecord, decision, record, nowMs, address }, signal);
      if (!written) continue;
      if (decision.kind === 'refuse')
        throw new JoinError(decision.code, `admitting ${applicant.nodeId}: ${decision.why}`, {
          details: { noted: true },
        });
      if (decision.kind === 'wait') return { kind: 'waiting', record };
      return {
        kind: 'admitted',
        assignment: decision.assignment,
        expiresMs: record.decision?.expiresMs ?? nowMs + POLICY_ADMISSION_MS,
      };
    }
    throw new JoinError('join-busy', `admitting ${applicant.nodeId}: ${TRIES} tries were overtaken`);
  }

  /** false: overtaken. */
  async #write(
    applicant: Applicant,
    made: {
      readonly onRecord: CheckedRecords;
      readonly decision: Exclude<JoinDecision, { kind: 'member' }>;
      readonly record: JoinRecord;
      readonly nowMs: number;
      readonly address: string;
    },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { onRecord, decision, record, nowMs, address } = made;
    const { budget, feed } = this.#ports;
    const { join } = onRecord;
    if (join !== undefined && !isWorthWriting(join, record, nowMs)) return true;
    const isStrange = decision.kind !== 'admit';
    const makesRoom = join === undefined && isStrange ? requestsToEvict(feed, applicant.nodeId, nowMs) : [];
    if (isStrange && !budget.tryTake(address)) {
      if (decision.kind === 'refuse' || join !== undefined) return true; // it is answered, and nothing is written
      throw new JoinError('join-busy', `admitting ${applicant.nodeId}: too many ask`);
    }
    if (!isStrange && !this.#machines.tryTake(applicant.machine.identity))
      throw new JoinError('join-busy', `admitting ${applicant.nodeId}: its machine asks too often`);
    const gone = planRequestRemoval([...makesRoom, ...this.#replaced(applicant)]);
    const trace = await readTrace(this.#ports.etcd, applicant.nodeId, signal);
    const facts = mergeFacts(trace.facts, [...applicant.facts, ...traceFactsOf(decision, applicant, nowMs)]);
    const then: Write[] = [
      ...(keepsStoredRecord(join, record)
        ? []
        : [put(records.join.key(applicant.nodeId), records.join.encode(record))]),
      ...gone.then,
      traceWrite(applicant.nodeId, facts),
    ];
    const dropped = budget.takeDropped();
    const result = await this.#ports.audit.commit(
      {
        when: [onRecord.joinUnchanged, ...gone.when],
        then,
        facts: {
          timeMs: nowMs,
          caller: `joinservice:${this.#ports.nodeId}`,
          method: 'RequestAdmission',
          subject: applicant.nodeId,
          detail: {
            ...auditVerdictOf(decision),
            ...describeMachine(applicant),
            attempts: record.attempts,
            ...(dropped === 0 ? {} : { alsoNotWritten: dropped }),
          },
        },
      },
      signal,
    );
    return result.kind === 'committed';
  }

  /**
   * Open requests of the same machine under older keys: it was reset, and only its newest one can go on. What an operator
   * decided stays; what a policy did, it does again.
   */
  #replaced({ nodeId, machine }: Applicant): readonly JoinEntry[] {
    return this.#ports.feed.open
      .filter(({ record }) => record.nodeId !== nodeId && record.machine.identity === machine.identity)
      .filter(({ record: { decision } }) => decision?.by.startsWith('operator:') !== true)
      .slice(0, 4);
  }
}

/** A member that asks again within its time had its answer lost. */
function memberAgain(node: NodeRecord, nowMs: number): AdmissionResult {
  const { name, roles, labels, admission } = node;
  return {
    kind: 'admitted',
    assignment: { name, roles, labels, decidedBy: admission?.decidedBy ?? '' },
    expiresMs: nowMs + POLICY_ADMISSION_MS,
  };
}
