import { proofText } from '../../../internal/attestation/index.ts';
import { CLOCK_TOLERANCE_MS } from '../../../internal/clock/index.ts';
import type { JoinConfig } from '../../../internal/config/index.ts';
import { DNS_LABEL } from '../../../internal/endpoint/index.ts';
import type {
  JoinRecord,
  MachineRecord,
  NodeRecord,
  TraceFactRecord,
} from '../../../internal/records/index.ts';
import { isControlPlane, type Role, type Taint } from '../../../internal/role/index.ts';
import { MACHINE_CHECKS } from '../../joinproto/index.ts';
import { rolesOfEntry } from '../../ownerdocs/index.ts';
import type { JoinErrorCode } from '../errors.ts';
import { isOperatorDecision, type Applicant } from './applicant.ts';

/** The current `join` section of the configuration: which machines may become members. */
export interface JoinPolicy extends JoinConfig {
  /** Version of this policy; identifies the policy in the audit log and in records. */
  readonly version: string;
}

/** The part of an applicant that a decision depends on. */
export type JudgedApplicant = Pick<Applicant, 'nodeId' | 'machine' | 'claimed' | 'facts'>;

/** The records of the cluster about an applicant. Read by `readApplicantRecords`. */
export interface ApplicantRecords {
  /** The node with the key of the applicant. */
  readonly node: NodeRecord | undefined;
  /** The node with the hardware of the applicant, whatever its key. */
  readonly machineHolder: NodeRecord | undefined;
  /** The earlier request of the applicant. */
  readonly join: JoinRecord | undefined;
  /** The ID of the node that has the name, or for which an approval reserves the name. */
  readonly nameHolder: (name: string) => string | undefined;
  /** Why an earlier removal excludes the machine; undefined if it was never removed, or an owner readmitted it. */
  readonly whyExcluded: string | undefined;
  /** The signatures that are missing for this machine to become a control plane. */
  readonly missingSignatures: MissingSignatures;
}

/**
 * Each field is undefined if an owner’s signature exists or is not needed; otherwise it is the reason why the
 * signature is missing.
 */
export interface MissingSignatures {
  /** Concerns the signature over the current configuration with its inventory. */
  readonly inventory: string | undefined;
  /** Concerns the grant of the roles that an operator approved for this machine. */
  readonly approval: string | undefined;
}

/**
 * The node that a machine becomes. Its name, roles, labels and taints are those that operators configured or
 * approved, never those that the machine requests.
 */
export interface NodeAssignment {
  readonly name: string;
  readonly roles: readonly Role[];
  readonly labels: Readonly<Record<string, string>>;
  /** Absent without taints. */
  readonly taints?: readonly Taint[] | undefined;
  /** "operator:NAME" or "policy:VERSION". */
  readonly decidedBy: string;
}

/** The decision about an applicant, with the checks that led to it. */
export type JoinDecision =
  /** The machine is already a member with this key. */
  | { readonly kind: 'member'; readonly node: NodeRecord }
  | { readonly kind: 'admit'; readonly assignment: NodeAssignment; readonly checks: readonly DecisionCheck[] }
  | {
      readonly kind: 'wait' | 'refuse';
      readonly code: JoinErrorCode;
      readonly why: string;
      readonly checks: readonly DecisionCheck[];
    };

/**
 * A decision about a machine that is not a member yet. Only such decisions have an entry in the audit log and
 * the trace.
 */
export type NewDecision = Exclude<JoinDecision, { kind: 'member' }>;

/** One check of a decision, for the trace. */
export interface DecisionCheck {
  readonly name: string;
  readonly outcome: 'pass' | 'wait' | 'fail';
  readonly expected: string;
  readonly actual: string;
}

/**
 * Reserved names. The kubelet’s serving certificate contains the node name, and these are names of the API
 * server and of every machine itself.
 */
const RESERVED: readonly string[] = ['kubernetes', 'localhost'];

/**
 * Decides whether a machine may join. Pure: the same applicant, records and policy give the same decision. A
 * claim of the machine can lead to a refusal, but it never adds to what the machine was assigned.
 */
export function decideJoin(
  applicant: JudgedApplicant,
  onRecord: ApplicantRecords,
  at: { readonly policy: JoinPolicy; readonly nowMs: number },
): JoinDecision {
  const checks: DecisionCheck[] = [];
  const refused = refusalOf(applicant, onRecord, checks);
  if (refused !== undefined) return { ...refused, checks };
  if (onRecord.node !== undefined) return { kind: 'member', node: onRecord.node };
  const outcome = assignmentOf(applicant, onRecord, at);
  checks.push(policyCheck(outcome, at.policy, applicant.machine));
  if (!('assignment' in outcome)) return { ...outcome, checks };
  const unsigned = missingSignature(outcome.assignment, onRecord.missingSignatures, checks);
  if (unsigned !== undefined) return { ...unsigned, checks };
  const denied = denialOf(applicant, onRecord, outcome.assignment, checks);
  return denied === undefined
    ? { kind: 'admit', assignment: outcome.assignment, checks }
    : { ...denied, checks };
}

type Refusal = { readonly kind: 'refuse'; readonly code: JoinErrorCode; readonly why: string };
type Wait = { readonly kind: 'wait'; readonly code: JoinErrorCode; readonly why: string };

/**
 * The reason for which every policy refuses a machine: a wrong clock, a removal, a second membership of the same machine,
 * or a check that the machine itself has made and that failed.
 */
function refusalOf(
  { nodeId, machine, claimed, facts }: JudgedApplicant,
  { node, machineHolder, join, whyExcluded }: ApplicantRecords,
  checks: DecisionCheck[],
): Refusal | undefined {
  const check = checker(checks);
  const offset = Math.round(claimed.clockOffsetMs / 1000);
  const isClockNear = Math.abs(claimed.clockOffsetMs) <= CLOCK_TOLERANCE_MS;
  check('clock', isClockNear, '±300 s', `${offset >= 0 ? '+' : ''}${offset} s`);
  if (!isClockNear) return refuse('join-clock-off', `the clock of the machine is off by ${offset} s`);
  const taken = [node, machineHolder].find((each) => each?.state === 'DECOMMISSIONED');
  check(
    'not decommissioned',
    taken === undefined,
    'no decommissioned node has this machine or this node ID',
    taken?.name ?? 'none',
  );
  if (taken !== undefined) return refuse('join-decommissioned', `node ${taken.name} was decommissioned`);
  // An existing node stays a member although its machine was removed earlier: an owner readmitted the machine before
  // it joined again, even if that readmission has expired since.
  const isOut = node === undefined && whyExcluded !== undefined;
  check('not removed', !isOut, 'no removal of this machine', isOut ? whyExcluded : 'none');
  if (isOut) return refuse('join-decommissioned', whyExcluded);
  const known = node?.admission?.identity ?? (join?.state === 'approved' ? join.machine.identity : undefined);
  const isSame = known === undefined || known === machine.identity;
  check('same machine', isSame, known ?? 'any', machine.identity);
  if (!isSame)
    return refuse(
      'join-identity-changed',
      `the key of this machine is on record for another machine, ${known}`,
    );
  const other = machineHolder?.nodeId === nodeId ? undefined : machineHolder;
  check('one membership', other === undefined, 'no other node', other?.name ?? 'none');
  if (other !== undefined) return refuse('join-identity-taken', `this machine is node ${other.name}`);
  const isUnfit = ({ side, name, outcome }: TraceFactRecord): boolean =>
    side === 'machine' && name === MACHINE_CHECKS && outcome === 'fail';
  const unfit = node === undefined ? facts.find(isUnfit) : undefined;
  if (unfit !== undefined) return refuse('join-machine-unfit', `${unfit.code}: ${unfit.actual}`);
  return undefined;
}

/**
 * The name, roles, labels and taints that operators assign to this machine: by an approval, by the inventory, or by
 * the policy `auto`.
 */
function assignmentOf(
  applicant: JudgedApplicant,
  { join }: ApplicantRecords,
  { policy, nowMs }: { readonly policy: JoinPolicy; readonly nowMs: number },
): { readonly assignment: NodeAssignment } | Refusal | Wait {
  const { machine } = applicant;
  const decision = join?.decision;
  if (join?.state === 'refused' && isOperatorDecision(decision))
    return refuse('join-refused', `${decision.by} refused the machine`);
  if (join?.state === 'approved' && isOperatorDecision(decision) && decision.expiresMs > nowMs)
    return {
      assignment: {
        name: decision.name,
        roles: decision.roles,
        labels: decision.labels,
        taints: decision.taints,
        decidedBy: decision.by,
      },
    };
  const entry = policy.inventory.find(({ identity }) => identity === machine.identity);
  const decidedBy = `policy:${policy.version}`;
  if (entry !== undefined)
    return {
      assignment: {
        name: entry.name,
        roles: rolesOfEntry(entry.roles),
        labels: entry.labels,
        taints: entry.taints,
        decidedBy,
      },
    };
  switch (policy.policy) {
    case 'inventory':
      return refuse('join-unknown-machine', `${machine.identity} is not in the inventory`);
    case 'auto':
      return automaticAssignment(applicant, decidedBy);
    case 'approve':
      return wait(`an operator has to decide about ${machine.identity}`);
  }
}

/** Operators and the policy `auto` can only make workers. A control plane needs the signature of an owner. */
function missingSignature(
  { roles, decidedBy }: NodeAssignment,
  { inventory, approval }: MissingSignatures,
  checks: DecisionCheck[],
): Wait | undefined {
  if (!isControlPlane(roles)) return undefined;
  const why = decidedBy.startsWith('operator:') ? approval : inventory;
  const expected = 'an owner signed that this machine may be a control plane';
  checks.push({
    name: 'owner',
    outcome: why === undefined ? 'pass' : 'wait',
    expected,
    actual: why ?? 'signed',
  });
  return why === undefined ? undefined : { kind: 'wait', code: 'join-awaiting-owner', why };
}

/**
 * The policy `auto`: machines with proved hardware and measured software become workers; operators decide about all
 * other machines.
 */
function automaticAssignment(
  { nodeId, machine, claimed }: JudgedApplicant,
  decidedBy: string,
): { readonly assignment: NodeAssignment } | Refusal | Wait {
  if (machine.proof === 'unproved')
    return refuse(
      'join-identity-unproved',
      `no trusted manufacturer or inventory vouches for ${machine.identity}`,
    );
  if (machine.profile !== 'measured')
    return wait('the software of the machine is not measured (profile identity)');
  return {
    assignment: {
      name: requestedName(claimed) ?? nodeId,
      roles: ['KubernetesWorker'],
      labels: {},
      decidedBy,
    },
  };
}

/** Refuses a machine that requests more than it is assigned, and names that are invalid or taken. */
function denialOf(
  { nodeId, claimed }: JudgedApplicant,
  { nameHolder }: ApplicantRecords,
  assignment: NodeAssignment,
  checks: DecisionCheck[],
): Refusal | undefined {
  const check = checker(checks);
  const excess = claimed.roles.filter((role) => !(assignment.roles as readonly string[]).includes(role));
  check(
    'roles',
    excess.length === 0,
    `no roles except ${assignment.roles.join(' ')}`,
    claimed.roles.join(' ') || 'no roles requested',
  );
  if (excess.length > 0)
    return refuse(
      'join-role-denied',
      `the machine requests ${excess.join(' ')}, which nobody assigned to it`,
    );
  if (!isNodeName(assignment.name))
    return refuse('join-name-invalid', `invalid node name ${JSON.stringify(assignment.name)}`);
  const holder = nameHolder(assignment.name);
  const isFree = holder === undefined || holder === nodeId;
  check('name', isFree, `${assignment.name} is free`, isFree ? 'free' : `the name belongs to ${holder}`);
  return isFree ? undefined : refuse('join-name-taken', `${assignment.name} belongs to ${holder}`);
}

/** The name that the machine requests, else its host name; undefined if neither is a valid node name. */
export function requestedName(claimed: Pick<JoinRecord['claimed'], 'name' | 'hostname'>): string | undefined {
  const host = claimed.hostname.toLowerCase().split('.')[0] ?? '';
  return [claimed.name, host].find(isNodeName);
}

/** Whether a node may have this name: a DNS label that is not reserved. */
export function isNodeName(name: string): boolean {
  return DNS_LABEL.test(name) && !RESERVED.includes(name);
}

function policyCheck(
  outcome: { readonly assignment: NodeAssignment } | Refusal | Wait,
  policy: JoinPolicy,
  machine: MachineRecord,
): DecisionCheck {
  const expected = `join.policy: ${policy.policy} (${policy.version})`;
  if ('assignment' in outcome) {
    const { assignment } = outcome;
    const actual = `${assignment.decidedBy}: ${assignment.name} as ${assignment.roles.join(' ')}`;
    return { name: 'policy', outcome: 'pass', expected, actual };
  }
  const actual = `${machine.identity} (${proofText(machine.proof)}; profile ${machine.profile}): ${outcome.why}`;
  return { name: 'policy', outcome: outcome.kind === 'wait' ? 'wait' : 'fail', expected, actual };
}

function checker(checks: DecisionCheck[]) {
  return (name: string, holds: boolean, expected: string, actual: string): void =>
    void checks.push({ name, outcome: holds ? 'pass' : 'fail', expected, actual });
}

function refuse(code: JoinErrorCode, why: string): Refusal {
  return { kind: 'refuse', code, why };
}

function wait(why: string): Wait {
  return { kind: 'wait', code: 'join-awaiting-approval', why };
}
