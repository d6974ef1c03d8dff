import type { Clock } from '../../internal/clock/index.ts';
import { absent, put, remove, type KeySpace, type Write } from '../../internal/etcd/index.ts';
import type { Readable } from '../../internal/event/index.ts';
import {
  nodeNameKey,
  records,
  type JoinRecord,
  type NodeRecord,
  type TraceFactRecord,
} from '../../internal/records/index.ts';
import type { AuditLog } from '../audit/index.ts';
import { Budget } from './budget.ts';
import { JoinError, joinErrors } from './errors.ts';
import type { JoinFeed } from './join-feed.ts';
import type { ConfigurationInForce } from './policy-source.ts';
import {
  decideJoin,
  type Applicant,
  type Check,
  type Decision,
  type Grant,
  type JoinPolicy,
} from './policy.ts';
import { readStanding, type StandingNow } from './standing.ts';
import { mergeFacts, readTrace, traceWrite } from './trace.ts';

const MINUTE_MS = 60_000;
/** What policy admits has an hour to lock itself and commit; it asks anew as often as it likes. */
const POLICY_ADMISSION_MS = 60 * MINUTE_MS;
/** A request that changes nothing is written down this often. */
const SEEN_MS = 5 * MINUTE_MS;
const TRIES = 16;
/** Requests that are not members; machines beyond that are told to come back. */
const MAX_OPEN = 1024;
/** Audit entries that strangers can cause on one node. */
const STRANGERS = { size: 1200, periodMs: 10 * MINUTE_MS };

export interface AdmissionPorts {
  readonly etcd: KeySpace;
  readonly audit: AuditLog;
  readonly feed: JoinFeed;
  readonly configuration: Readable<ConfigurationInForce>;
  readonly clock: Clock;
  /** The node that decides: for the audit. */
  readonly nodeId: string;
}

/** A machine that proved its key and hardware. */
export interface Asking extends Applicant {
  readonly pubKeyDer: Uint8Array;
  /** What the machine itself found on its way. */
  readonly facts: readonly TraceFactRecord[];
}

export type Considered =
  | { readonly kind: 'admitted'; readonly grant: Grant; readonly expiresMs: number }
  | { readonly kind: 'waiting'; readonly record: JoinRecord };

/** Decides about machines, and writes down what it decided: request, audit and trace in one transaction. */
export class Admissions {
  readonly #ports: AdmissionPorts;
  readonly #strangers: Budget;

  constructor(ports: AdmissionPorts) {
    this.#ports = ports;
    this.#strangers = new Budget({ clock: ports.clock, ...STRANGERS });
  }

  /** Answers what came of it now; throws the refusal as a `JoinError`, after it has been written down. */
  async consider(asking: Asking, signal: AbortSignal): Promise<Considered> {
    for (let tries = 0; tries < TRIES; tries++) {
      const policy = this.#policy();
      const nowMs = this.#ports.clock.nowMs();
      const standing = await readStanding({ ...this.#ports, nowMs }, asking, { policy, signal });
      const decision = decideJoin(asking, standing, { policy, nowMs });
      if (decision.kind === 'member') return memberAgain(decision.node, nowMs);
      const record = recordOf(asking, standing.join, decision, nowMs);
      const written = await this.#write(asking, { standing, decision, record, nowMs }, signal);
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

  /**
   * Makes an admitted machine a member: checks everything again, then one transaction. The same machine that asks again
   * gets the membership that is there.
   * @param akName of the evidence of this very session; undefined for evidence without a TPM
   */
  async commit(
    nodeId: string,
    evidence: { readonly akName: string | undefined; readonly identity: string },
    signal: AbortSignal,
  ): Promise<NodeRecord> {
    for (let tries = 0; tries < TRIES; tries++) {
      const policy = this.#policy();
      const nowMs = this.#ports.clock.nowMs();
      const asking = await this.#admitted(nodeId, evidence, { nowMs, signal });
      const standing = await readStanding({ ...this.#ports, nowMs }, asking, { policy, signal });
      const decision = decideJoin(asking, standing, { policy, nowMs });
      if (decision.kind === 'member') {
        if (nowMs > (standing.join?.decision?.expiresMs ?? 0))
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
      const node = nodeOf(asking, decision.grant, nowMs);
      if (await this.#mint(node, { standing, asking, nowMs }, signal)) return node;
    }
    throw new JoinError('join-busy', `ticketing ${nodeId}: ${TRIES} tries were overtaken`);
  }

  /**
   * Writes down that a machine was refused outside of a decision: bad evidence, a wrong key. Bounded; `subject` is what is
   * known of it, at least its address.
   */
  async refused(
    refusal: {
      readonly method: string;
      readonly subject: string;
      readonly code: string;
      readonly detail: Readonly<Record<string, unknown>>;
    },
    signal: AbortSignal,
  ): Promise<void> {
    if (!this.#strangers.take()) return;
    const { method, subject, code, detail } = refusal;
    const dropped = this.#strangers.takeDropped();
    await this.#ports.audit.commit(
      {
        when: [],
        then: [],
        facts: {
          timeMs: this.#ports.clock.nowMs(),
          caller: `joinservice:${this.#ports.nodeId}`,
          method,
          subject,
          detail: {
            verdict: 'refused',
            code,
            ...detail,
            ...(dropped === 0 ? {} : { alsoNotWritten: dropped }),
          },
        },
      },
      signal,
    );
  }

  /** The request that was admitted, if this is the machine that was. */
  async #admitted(
    nodeId: string,
    evidence: { readonly akName: string | undefined; readonly identity: string },
    at: { readonly nowMs: number; readonly signal: AbortSignal },
  ): Promise<Asking> {
    const key = records.join.key(nodeId);
    const entry = await this.#ports.etcd.get(key, { signal: at.signal });
    const join = entry === undefined ? undefined : records.join.decode(key, entry.value);
    if (join === undefined || join.state === 'pending')
      throw new JoinError('join-not-admitted', `ticketing ${nodeId}: ${join?.state ?? 'no request'}`);
    const { machine, claimed, pubKey } = join;
    const isSame =
      machine.akName === undefined
        ? machine.identity === evidence.identity
        : machine.akName === evidence.akName;
    if (!isSame)
      throw new JoinError('join-identity-changed', `ticketing ${nodeId}: admitted was ${machine.identity}`);
    if (join.state === 'approved' && (join.decision?.expiresMs ?? 0) < at.nowMs)
      throw new JoinError('join-admission-expired', `ticketing ${nodeId}`);
    // Its clock was judged when it asked; by now it is this session that counts.
    return {
      nodeId,
      machine,
      claimed: { ...claimed, clockOffsetMs: 0 },
      pubKeyDer: Buffer.from(pubKey, 'base64'),
      facts: [],
    };
  }

  async #mint(
    node: NodeRecord,
    was: { readonly standing: StandingNow; readonly asking: Asking; readonly nowMs: number },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { standing, asking, nowMs } = was;
    const { join } = standing;
    if (join === undefined) return false;
    const { nodeId } = node;
    const [nodeKey, nameKey, identityKey] = [
      records.node.key(nodeId),
      nodeNameKey(node.name),
      records.identity.key(asking.machine.identity),
    ];
    const joined: JoinRecord = { ...join, state: 'joined', code: '', message: '', lastSeenMs: nowMs };
    const result = await this.#ports.audit.commit(
      {
        when: [standing.sameJoin, absent(nodeKey), absent(nameKey), absent(identityKey)],
        then: [
          put(nodeKey, records.node.encode(node)),
          put(nameKey, new TextEncoder().encode(nodeId)),
          put(identityKey, records.identity.encode({ version: 1, nodeId, ...akOf(asking) })),
          put(records.join.key(nodeId), records.join.encode(joined)),
        ],
        facts: {
          timeMs: nowMs,
          caller: `joinservice:${this.#ports.nodeId}`,
          method: 'IssueJoinTicket',
          subject: nodeId,
          detail: {
            verdict: 'joined',
            ...describeMachine(asking),
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

  /** false: overtaken. */
  async #write(
    asking: Asking,
    made: {
      readonly standing: StandingNow;
      readonly decision: Exclude<Decision, { kind: 'member' }>;
      readonly record: JoinRecord;
      readonly nowMs: number;
    },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { standing, decision, record, nowMs } = made;
    const { join } = standing;
    if (join !== undefined && !isNews(join, record, nowMs)) return true;
    const isStrange = decision.kind !== 'admit';
    if (join === undefined && isStrange && this.#ports.feed.open.length >= MAX_OPEN)
      throw new JoinError('join-busy', `admitting ${asking.nodeId}: ${MAX_OPEN} machines ask already`);
    if (isStrange && !this.#strangers.take()) {
      if (decision.kind === 'refuse') return true;
      throw new JoinError('join-busy', `admitting ${asking.nodeId}: too many ask`);
    }
    const trace = await readTrace(this.#ports.etcd, asking.nodeId, signal);
    const facts = mergeFacts(trace.facts, [...asking.facts, ...factsOf(decision, asking, nowMs)]);
    const then: Write[] = [
      ...(isKept(join, record) ? [] : [put(records.join.key(asking.nodeId), records.join.encode(record))]),
      ...this.#replaced(asking).map((nodeId) => remove(records.join.key(nodeId))),
      traceWrite(asking.nodeId, facts),
    ];
    const dropped = this.#strangers.takeDropped();
    const result = await this.#ports.audit.commit(
      {
        when: [standing.sameJoin],
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

  /** Open requests of the same machine under older keys: it was reset, and only its newest one can go on. */
  #replaced({ nodeId, machine }: Asking): readonly string[] {
    return this.#ports.feed.open
      .filter(({ record }) => record.nodeId !== nodeId && record.machine.identity === machine.identity)
      .filter(({ record }) => record.state === 'pending' || record.decision === undefined)
      .map(({ record }) => record.nodeId)
      .slice(0, 4);
  }

  #policy(): JoinPolicy {
    const now = this.#ports.configuration.peek();
    if (!now.set)
      throw new JoinError('join-not-ready', 'deciding about a machine: no configuration is in force');
    return now.value.policy;
  }
}

/** A request of a member, or of a machine that others decided about, is not replaced by what somebody else asks. */
function isKept(join: JoinRecord | undefined, record: JoinRecord): boolean {
  if (join === undefined) return false;
  if (join.state === 'joined') return true;
  const isDecided = join.state === 'approved' || join.decision?.by.startsWith('operator:') === true;
  return isDecided && join.machine.identity !== record.machine.identity;
}

/** Whether a request says something that is not on record. */
function isNews(join: JoinRecord, record: JoinRecord, nowMs: number): boolean {
  const essence = ({ state, machine, claimed, decision, code }: JoinRecord): string =>
    JSON.stringify([
      state,
      code,
      machine.identity,
      machine.proof,
      machine.akName,
      machine.policyVersion,
      decision?.name,
      decision?.roles,
      decision?.labels,
      decision?.by,
      claimed.address,
      claimed.name,
      claimed.roles,
    ]);
  if (essence(join) !== essence(record)) return true;
  const isRunningOut = (join.decision?.expiresMs ?? Infinity) - nowMs < POLICY_ADMISSION_MS / 2;
  return nowMs - join.lastSeenMs > SEEN_MS || (join.state === 'approved' && isRunningOut);
}

function recordOf(
  asking: Asking,
  join: JoinRecord | undefined,
  decision: Exclude<Decision, { kind: 'member' }>,
  nowMs: number,
): JoinRecord {
  const base = {
    version: 1 as const,
    nodeId: asking.nodeId,
    pubKey: Buffer.from(asking.pubKeyDer).toString('base64'),
    machine: asking.machine,
    claimed: asking.claimed,
    firstSeenMs: join?.firstSeenMs ?? nowMs,
    lastSeenMs: nowMs,
    attempts: (join?.attempts ?? 0) + 1,
  };
  // What an operator decided stays, whatever it is refused for meanwhile.
  const byOperator = join?.decision?.by.startsWith('operator:') === true ? join.decision : undefined;
  if (decision.kind === 'admit') {
    const { name, roles, labels, by } = decision.grant;
    const kept = byOperator?.by === by ? byOperator : undefined;
    const made = {
      name,
      roles: [...roles],
      labels,
      by,
      timeMs: nowMs,
      expiresMs: nowMs + POLICY_ADMISSION_MS,
    };
    return { ...base, state: 'approved', decision: kept ?? made, code: '', message: '' };
  }
  const { code, why } = decision;
  const state =
    byOperator === undefined
      ? decision.kind === 'wait'
        ? 'pending'
        : 'refused'
      : (join?.state ?? 'pending');
  const isOver = state === 'approved' && decision.kind === 'wait'; // the operator's yes ran out
  return {
    ...base,
    state: isOver ? 'pending' : state,
    ...(byOperator === undefined || isOver ? {} : { decision: byOperator }),
    code,
    message: why,
  };
}

function nodeOf(asking: Asking, grant: Grant, nowMs: number): NodeRecord {
  return {
    version: 1,
    nodeId: asking.nodeId,
    name: grant.name,
    pubKey: Buffer.from(asking.pubKeyDer).toString('base64'),
    state: 'UP',
    roles: [...grant.roles],
    labels: { ...grant.labels },
    createdMs: nowMs,
    admission: { ...asking.machine, proof: provedBy(asking, grant), decidedBy: grant.by, timeMs: nowMs },
  };
}

/** Whoever said yes to a machine for which nobody else vouches, vouches for it. */
function provedBy({ machine }: Asking, { by }: Grant) {
  return machine.proof === 'unproved' && by.startsWith('operator:') ? ('pinned' as const) : machine.proof;
}

function akOf({ machine }: Asking): { readonly akName?: string } {
  return machine.akName === undefined ? {} : { akName: machine.akName };
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

function verdictOf(decision: Exclude<Decision, { kind: 'member' }>): Readonly<Record<string, unknown>> {
  if (decision.kind === 'admit') {
    const { name, roles, by } = decision.grant;
    return { verdict: 'admitted', name, roles, by };
  }
  const verdict = decision.kind === 'wait' ? 'waiting' : 'refused';
  return { verdict, code: decision.code, reason: decision.why };
}

function describeMachine({ machine }: Asking): Readonly<Record<string, unknown>> {
  const { identity, proof, variant, profile, evidenceDigest, policyVersion } = machine;
  return { identity, proof, variant, profile, evidenceDigest, policyVersion };
}

function factsOf(
  decision: Exclude<Decision, { kind: 'member' }>,
  { machine }: Asking,
  timeMs: number,
): readonly TraceFactRecord[] {
  const code = decision.kind === 'admit' ? '' : decision.code;
  const evidence: Check = {
    name: 'evidence',
    outcome: 'pass',
    expected: `policy ${machine.policyVersion}`,
    actual: `${machine.variant}, ${machine.profile}, ${machine.identity} (${machine.proof})`,
  };
  return [evidence, ...decision.checks].map((check) => {
    const isCause = check.outcome !== 'pass';
    const { fix } = isCause && decision.kind !== 'admit' ? joinErrors[decision.code] : { fix: '' };
    return { side: 'cluster', ...check, fix, code: isCause ? code : '', timeMs };
  });
}
