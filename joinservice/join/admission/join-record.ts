import type { JoinRecord, NodeRecord } from '../../../internal/records/index.ts';
import { CLOCK_TOLERANCE_MS, type JoinDecision, type NodeAssignment } from './decide-join.ts';
import type { Applicant } from './applicant.ts';
import type { JoinErrorCode } from '../errors.ts';

const MINUTE_MS = 60_000;
/** What policy admits has an hour to lock itself and commit; it asks anew as often as it likes. */
export const POLICY_ADMISSION_MS = 60 * MINUTE_MS;
const CLOCK_OFF: JoinErrorCode = 'join-clock-off';
/** A request that changes nothing is written down this often. */
const SEEN_MS = 10 * MINUTE_MS;

/** A request of a member, or of a machine that others decided about, is not replaced by what somebody else asks. */
export function keepsStoredRecord(join: JoinRecord | undefined, record: JoinRecord): boolean {
  if (join === undefined) return false;
  if (join.state === 'joined') return true;
  const isDecided = join.state === 'approved' || join.decision?.by.startsWith('operator:') === true;
  return isDecided && join.machine.identity !== record.machine.identity;
}

/** Whether a request says something that is not on record. */
export function isWorthWriting(join: JoinRecord, record: JoinRecord, nowMs: number): boolean {
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
      // Refused for another clock than before: who mends it in steps sees each of them.
      code === CLOCK_OFF ? Math.round(claimed.clockOffsetMs / CLOCK_TOLERANCE_MS) : 0,
    ]);
  if (essence(join) !== essence(record)) return true;
  const isRunningOut = (join.decision?.expiresMs ?? Infinity) - nowMs < POLICY_ADMISSION_MS / 2;
  return nowMs - join.lastSeenMs > SEEN_MS || (join.state === 'approved' && isRunningOut);
}

export function joinRecordOf(
  applicant: Applicant,
  join: JoinRecord | undefined,
  decision: Exclude<JoinDecision, { kind: 'member' }>,
  nowMs: number,
): JoinRecord {
  const base = {
    version: 1 as const,
    nodeId: applicant.nodeId,
    pubKey: Buffer.from(applicant.pubKeyDer).toString('base64'),
    machine: applicant.machine,
    claimed: applicant.claimed,
    firstSeenMs: join?.firstSeenMs ?? nowMs,
    lastSeenMs: nowMs,
    attempts: (join?.attempts ?? 0) + 1,
  };
  // What an operator decided stays, whatever it is refused for meanwhile.
  const byOperator = join?.decision?.by.startsWith('operator:') === true ? join.decision : undefined;
  if (decision.kind === 'admit') {
    const { name, roles, labels, decidedBy: by } = decision.assignment;
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

export function nodeRecordOf(applicant: Applicant, grant: NodeAssignment, nowMs: number): NodeRecord {
  return {
    version: 1,
    nodeId: applicant.nodeId,
    name: grant.name,
    pubKey: Buffer.from(applicant.pubKeyDer).toString('base64'),
    state: 'UP',
    roles: [...grant.roles],
    labels: { ...grant.labels },
    createdMs: nowMs,
    admission: {
      ...applicant.machine,
      proof: provedBy(applicant, grant),
      decidedBy: grant.decidedBy,
      timeMs: nowMs,
    },
  };
}

/** Whoever said yes to a machine for which nobody else vouches, vouches for it. */
function provedBy({ machine }: Applicant, { decidedBy: by }: NodeAssignment) {
  return machine.proof === 'unproved' && by.startsWith('operator:') ? ('pinned' as const) : machine.proof;
}

export function attestationKeyOf({ machine }: Applicant): { readonly akName?: string } {
  return machine.akName === undefined ? {} : { akName: machine.akName };
}
