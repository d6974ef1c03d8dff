import { CLOCK_TOLERANCE_MS, MINUTE_MS } from '../../../internal/clock/index.ts';
import type { JoinRecord, NodeRecord } from '../../../internal/records/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import type { NewDecision, NodeAssignment } from './decide-join.ts';
import { isOperatorDecision, type Applicant } from './applicant.ts';
import type { JoinErrorCode } from '../errors.ts';

/** For how long an admission by policy is valid. A machine may request admission again as often as it likes. */
export const POLICY_ADMISSION_MS = 60 * MINUTE_MS;
const CLOCK_OFF: JoinErrorCode = 'join-clock-off';
const UNFIT: JoinErrorCode = 'join-machine-unfit';
/** How often a repeated request is written if nothing in it changed. */
const SEEN_MS = 10 * MINUTE_MS;

/**
 * Whether the stored request must not be overwritten: its machine is a member, or it has a decision about another
 * machine with the same key.
 */
export function keepsStoredRecord(join: JoinRecord | undefined, record: JoinRecord): boolean {
  if (join === undefined) return false;
  if (join.state === 'joined') return true;
  const isDecided = join.state === 'approved' || isOperatorDecision(join.decision);
  return isDecided && join.machine.identity !== record.machine.identity;
}

/** Whether a request differs from the stored one, or the stored one is about to expire. */
export function isWorthWriting(join: JoinRecord, record: JoinRecord, nowMs: number): boolean {
  const essentials = ({ state, machine, claimed, decision, code, message }: JoinRecord): string =>
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
      decision?.taints,
      decision?.by,
      claimed.address,
      claimed.name,
      claimed.roles,
      // The failed check and the new offset are written at once, so that an operator who repairs the machine in steps sees the
      // result of each step.
      code === UNFIT ? message : '',
      code === CLOCK_OFF ? Math.round(claimed.clockOffsetMs / CLOCK_TOLERANCE_MS) : 0,
    ]);
  if (essentials(join) !== essentials(record)) return true;
  const isRunningOut = (join.decision?.expiresMs ?? Infinity) - nowMs < POLICY_ADMISSION_MS / 2;
  return nowMs - join.lastSeenMs > SEEN_MS || (join.state === 'approved' && isRunningOut);
}

/** The request as it is to be stored after a decision. */
export function joinRecordOf(
  applicant: Applicant,
  join: JoinRecord | undefined,
  decision: NewDecision,
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
  // The decision of an operator stays, even if the machine is refused for another reason meanwhile.
  const byOperator = isOperatorDecision(join?.decision) ? join?.decision : undefined;
  if (decision.kind === 'admit') {
    const { name, roles, labels, taints = [], decidedBy } = decision.assignment;
    const kept = byOperator?.by === decidedBy ? byOperator : undefined;
    const made = {
      name,
      roles: [...roles],
      labels,
      ...(taints.length === 0 ? {} : { taints: [...taints] }),
      by: decidedBy,
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
  const isOver = state === 'approved' && decision.kind === 'wait'; // the approval of the operator expired
  return {
    ...base,
    state: isOver ? 'pending' : state,
    ...(byOperator === undefined || isOver ? {} : { decision: byOperator }),
    code,
    message: why,
  };
}

/** The record of the node that an admitted machine becomes. */
export function nodeRecordOf(applicant: Applicant, assignment: NodeAssignment, nowMs: number): NodeRecord {
  const { taints = [] } = assignment;
  return {
    version: 1,
    nodeId: applicant.nodeId,
    name: assignment.name,
    pubKey: Buffer.from(applicant.pubKeyDer).toString('base64'),
    state: 'UP',
    roles: [...assignment.roles],
    wasControlPlane: isControlPlane(assignment.roles),
    labels: { ...assignment.labels },
    ...(taints.length === 0 ? {} : { taints: [...taints] }),
    createdMs: nowMs,
    admission: {
      ...applicant.machine,
      proof: provedBy(applicant, assignment),
      decidedBy: assignment.decidedBy,
      timeMs: nowMs,
    },
  };
}

/** An operator who approves a machine without endorsed hardware vouches for it. */
function provedBy({ machine }: Applicant, { decidedBy }: NodeAssignment) {
  return machine.proof === 'unproved' && decidedBy.startsWith('operator:')
    ? ('pinned' as const)
    : machine.proof;
}

/** The attestation key of the machine, for its identity record. */
export function attestationKeyOf({ machine }: Applicant): { readonly akName?: string } {
  return machine.akName === undefined ? {} : { akName: machine.akName };
}
