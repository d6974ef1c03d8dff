import type { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { put, type KeySpace, type Write } from '../../internal/etcd/index.ts';
import type { Readable } from '../../internal/event/index.ts';
import { records, type JoinRecord, type NodeRecord } from '../../internal/records/index.ts';
import { describeMachine, factsOf, verdictOf } from './admission-audit.ts';
import { isKept, isNews, POLICY_ADMISSION_MS, recordOf } from './admission-record.ts';
import type { Authority } from '../authority/index.ts';
import type { Asking } from './asking.ts';
import type { Budget } from './budget.ts';
import { JoinError } from './errors.ts';
import type { JoinEntry, JoinFeed } from './join-feed.ts';
import { MachineBudget } from './machine-budget.ts';
import { removalOf, roomForOne } from './open-requests.ts';
import { configurationInForce, type ConfigurationInForce } from './policy-source.ts';
import { decideJoin, type Decision, type Grant } from './policy.ts';
import { readStanding, type StandingNow } from './standing.ts';
import { mergeFacts, readTrace, traceWrite } from './trace.ts';

const TRIES = 16;

export interface AdmissionPorts {
  readonly etcd: KeySpace;
  readonly audit: AuditLog;
  readonly feed: JoinFeed;
  readonly configuration: Readable<ConfigurationInForce>;
  /** What owners have signed. */
  readonly authority: Authority;
  readonly clock: Clock;
  /** What strangers can cause to be written here. */
  readonly budget: Budget;
  /** The node that decides: for the audit. */
  readonly nodeId: string;
}

export type Considered =
  | { readonly kind: 'admitted'; readonly grant: Grant; readonly expiresMs: number }
  | { readonly kind: 'waiting'; readonly record: JoinRecord };

/** Decides about machines, and writes down what it decided: request, audit and trace in one transaction. */
export class Admissions {
  readonly #ports: AdmissionPorts;
  readonly #machines: MachineBudget;

  constructor(ports: AdmissionPorts) {
    this.#ports = ports;
    this.#machines = new MachineBudget(ports.clock);
  }

  /**
   * Answers what came of it now; throws the refusal as a `JoinError`, after it has been written down.
   * `address`: where the machine calls from.
   */
  async consider(
    { address, ...asking }: Asking & { readonly address: string },
    signal: AbortSignal,
  ): Promise<Considered> {
    for (let tries = 0; tries < TRIES; tries++) {
      const inForce = configurationInForce(this.#ports.configuration);
      const { policy } = inForce;
      const nowMs = this.#ports.clock.nowMs();
      const standing = await readStanding({ ...this.#ports, nowMs }, asking, { ...inForce, signal });
      const decision = decideJoin(asking, standing, { policy, nowMs });
      if (decision.kind === 'member') return memberAgain(decision.node, nowMs);
      const record = recordOf(asking, standing.join, decision, nowMs);
      const written = await this.#write(asking, { standing, decision, record, nowMs, address }, signal);
      if (!written) continue;
      if (decision.kind === 'refuse')
        throw new JoinError(decision.code, `admitting ${asking.nodeId}: ${decision.why}`, {
          details: { noted: true },
        });
      if (decision.kind === 'wait') return { kind: 'waiting', record };
      return {
        kind: 'admitted',
        grant: decision.grant,
        expiresMs: record.decision?.expiresMs ?? nowMs + POLICY_ADMISSION_MS,
      };
    }
    throw new JoinError('join-busy', `admitting ${asking.nodeId}: ${TRIES} tries were overtaken`);
  }

  /** false: overtaken. */
  async #write(
    asking: Asking,
    made: {
      readonly standing: StandingNow;
      readonly decision: Exclude<Decision, { kind: 'member' }>;
      readonly record: JoinRecord;
      readonly nowMs: number;
      readonly address: string;
    },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { standing, decision, record, nowMs, address } = made;
    const { budget, feed } = this.#ports;
    const { join } = standing;
    if (join !== undefined && !isNews(join, record, nowMs)) return true;
    const isStrange = decision.kind !== 'admit';
    const makesRoom = join === undefined && isStrange ? roomForOne(feed, asking.nodeId, nowMs) : [];
    if (isStrange && !budget.take(address)) {
      if (decision.kind === 'refuse' || join !== undefined) return true; // it is answered, and nothing is written
      throw new JoinError('join-busy', `admitting ${asking.nodeId}: too many ask`);
    }
    if (!isStrange && !this.#machines.take(asking.machine.identity))
      throw new JoinError('join-busy', `admitting ${asking.nodeId}: its machine asks too often`);
    const gone = removalOf([...makesRoom, ...this.#replaced(asking)]);
    const trace = await readTrace(this.#ports.etcd, asking.nodeId, signal);
    const facts = mergeFacts(trace.facts, [...asking.facts, ...factsOf(decision, asking, nowMs)]);
    const then: Write[] = [
      ...(isKept(join, record) ? [] : [put(records.join.key(asking.nodeId), records.join.encode(record))]),
      ...gone.then,
      traceWrite(asking.nodeId, facts),
    ];
    const dropped = budget.takeDropped();
    const result = await this.#ports.audit.commit(
      {
        when: [standing.sameJoin, ...gone.when],
        then,
        facts: {
          timeMs: nowMs,
          caller: `joinservice:${this.#ports.nodeId}`,
          method: 'RequestAdmission',
          subject: asking.nodeId,
          detail: {
            ...verdictOf(decision),
            ...describeMachine(asking),
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
  #replaced({ nodeId, machine }: Asking): readonly JoinEntry[] {
    return this.#ports.feed.open
      .filter(({ record }) => record.nodeId !== nodeId && record.machine.identity === machine.identity)
      .filter(({ record: { decision } }) => decision?.by.startsWith('operator:') !== true)
      .slice(0, 4);
  }
}

/** A member that asks again within its time had its answer lost. */
function memberAgain(node: NodeRecord, nowMs: number): Considered {
  const { name, roles, labels, admission } = node;
  return {
    kind: 'admitted',
    grant: { name, roles, labels, by: admission?.decidedBy ?? '' },
    expiresMs: nowMs + POLICY_ADMISSION_MS,
  };
}
