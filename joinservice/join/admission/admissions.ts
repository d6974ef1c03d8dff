import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Write } from '../../../internal/etcd/index.ts';
import { records, type JoinRecord, type NodeRecord } from '../../../internal/records/index.ts';
import type { SourcePath } from '../../../internal/rpc/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinEntry } from '../requests/join-feed.ts';
import { mergeFacts, readTrace, traceWrite } from '../requests/join-trace.ts';
import { MachineWriteBudget } from '../requests/machine-write-budget.ts';
import { planRequestRemoval, requestsToEvict } from '../requests/open-requests.ts';
import type { WriteBudget } from '../requests/write-budget.ts';
import { isOperatorDecision, type Applicant } from './applicant.ts';
import {
  decideApplicant,
  untilWritten,
  type DecidedApplicant,
  type DecisionPorts,
} from './decide-applicant.ts';
import type { NewDecision, NodeAssignment } from './decide-join.ts';
import { auditVerdictOf, describeMachine, traceFactsOf } from './decision-audit.ts';
import { isWorthWriting, joinRecordOf, keepsStoredRecord, POLICY_ADMISSION_MS } from './join-record.ts';

/** Maximum number of older requests of the same machine, under other keys, that one decision deletes. */
const MAX_REPLACED = 4;

export interface AdmissionsPorts extends DecisionPorts {
  /** The log of requests, for machines that are not admitted; admissions are in `audit`. */
  readonly requests: AuditLog;
  /** Limits the writes that machines without an admission can cause. */
  readonly budget: WriteBudget;
}

/** The answer to a machine that requested admission. A refusal is thrown instead. */
export type AdmissionResult =
  | { readonly kind: 'admitted'; readonly assignment: NodeAssignment; readonly expiresMs: number }
  | { readonly kind: 'waiting'; readonly record: JoinRecord };

/** A decision that has to be stored. */
interface WrittenDecision extends DecidedApplicant {
  readonly applicant: Applicant;
  readonly decision: NewDecision;
  readonly record: JoinRecord;
  readonly source: string | SourcePath;
}

/** Decides about machines that request admission. Writes request, audit entry and trace in one transaction. */
export class Admissions {
  readonly #ports: AdmissionsPorts;
  readonly #machines: MachineWriteBudget;

  constructor(ports: AdmissionsPorts) {
    this.#ports = ports;
    this.#machines = new MachineWriteBudget(ports.clock);
  }

  /**
   * The current decision about an applicant.
   * @param applicant `source`: the address (and relay) whose share of the budget the request uses
   * @throws JoinError the refusal, after it was written, or `join-busy`
   */
  async decide(
    { source, ...applicant }: Applicant & { readonly source: string | SourcePath },
    signal: AbortSignal,
  ): Promise<AdmissionResult> {
    const doing = `admitting ${applicant.nodeId}`;
    return untilWritten(doing, async () => {
      const decided = await decideApplicant(this.#ports, applicant, signal);
      const { decision, onRecord, nowMs } = decided;
      if (decision.kind === 'member') return resultForMember(decision.node, nowMs);
      const record = joinRecordOf(applicant, onRecord.join, decision, nowMs);
      if (!(await this.#write({ ...decided, applicant, decision, record, source }, signal))) return undefined;
      if (decision.kind === 'admit') {
        const expiresMs = record.decision?.expiresMs ?? nowMs + POLICY_ADMISSION_MS;
        return { kind: 'admitted', assignment: decision.assignment, expiresMs };
      }
      if (decision.kind === 'wait') return { kind: 'waiting', record };
      throw new JoinError(decision.code, `${doing}: ${decision.why}`, { details: { isAudited: true } });
    });
  }

  /** Stores the decision. Returns false if another writer was faster. */
  async #write(written: WrittenDecision, signal: AbortSignal): Promise<boolean> {
    const { applicant, onRecord, decision, record, nowMs } = written;
    const { etcd, audit, requests, budget, nodeId } = this.#ports;
    if (onRecord.join !== undefined && !isWorthWriting(onRecord.join, record, nowMs)) return true;
    const evicted = this.#evicted(written);
    if (!this.#mayWrite(written)) return true; // the machine gets its answer, but nothing is stored
    const removal = planRequestRemoval([...evicted, ...this.#replaced(applicant)]);
    const trace = await readTrace(etcd, applicant.nodeId, signal);
    const facts = mergeFacts(trace.facts, [...applicant.facts, ...traceFactsOf(decision, applicant, nowMs)]);
    const request = records.join.put(records.join.key(applicant.nodeId), record);
    const then: Write[] = [
      ...(keepsStoredRecord(onRecord.join, record) ? [] : [request]),
      ...removal.then,
      traceWrite(applicant.nodeId, facts),
    ];
    const dropped = budget.takeDropped();
    const detail = {
      ...auditVerdictOf(decision),
      ...describeMachine(applicant),
      attempts: record.attempts,
      ...(dropped === 0 ? {} : { alsoNotWritten: dropped }),
    };
    const caller = `joinservice:${nodeId}`;
    const entry = { timeMs: nowMs, caller, method: 'RequestAdmission', subject: applicant.nodeId, detail };
    const when = [onRecord.joinUnchanged, ...removal.when];
    const log = decision.kind === 'admit' ? audit : requests;
    return (await log.commit({ when, then, facts: entry }, signal)).kind === 'committed';
  }

  /** Requests to evict if a new request would exceed the limit. @throws JoinError `join-busy` */
  #evicted({ applicant, decision, onRecord, nowMs }: WrittenDecision): readonly JoinEntry[] {
    if (onRecord.join !== undefined || decision.kind === 'admit') return [];
    return requestsToEvict(this.#ports.feed, applicant.nodeId, nowMs);
  }

  /** Whether a budget allows the write. @throws JoinError `join-busy` if the machine cannot be answered without it */
  #mayWrite({ applicant, decision, onRecord, source }: WrittenDecision): boolean {
    const { nodeId, machine } = applicant;
    if (decision.kind === 'admit') {
      if (this.#machines.tryTake(machine.identity)) return true;
      throw new JoinError('join-busy', `admitting ${nodeId}: ${machine.identity} sends too many requests`);
    }
    if (this.#ports.budget.tryTake(source)) return true;
    if (decision.kind === 'refuse' || onRecord.join !== undefined) return false;
    throw new JoinError('join-busy', `admitting ${nodeId}: too many machines send requests`);
  }

  /**
   * Open requests of the same machine under older keys. The machine was reset, so only its newest request can
   * succeed. Requests with a decision of an operator stay; requests that a policy admitted are deleted.
   */
  #replaced({ nodeId, machine }: Applicant): readonly JoinEntry[] {
    return this.#ports.feed.open
      .filter(({ record }) => record.nodeId !== nodeId && record.machine.identity === machine.identity)
      .filter(({ record: { decision } }) => !isOperatorDecision(decision))
      .slice(0, MAX_REPLACED);
  }
}

/** The answer to a member that requests admission again, because it did not receive the first answer. */
function resultForMember(node: NodeRecord, nowMs: number): AdmissionResult {
  const { name, roles, labels, taints, admission } = node;
  return {
    kind: 'admitted',
    assignment: { name, roles, labels, taints, decidedBy: admission?.decidedBy ?? '' },
    expiresMs: nowMs + POLICY_ADMISSION_MS,
  };
}
