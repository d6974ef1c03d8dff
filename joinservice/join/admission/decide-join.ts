import type { JoinConfig } from '../../../internal/config/index.ts';
import type { JoinRecord, MachineRecord, NodeRecord } from '../../../internal/records/index.ts';
import { isControlPlane, type Role } from '../../../internal/role/index.ts';
import { rolesOfEntry } from '../../ownerdocs/index.ts';
import type { JoinErrorCode } from '../errors.ts';

/** Who may become a member, as it is in force now. */
export interface JoinPolicy extends JoinConfig {
  /** Names this policy in audit and records. */
  readonly version: string;
}

/** A machine that has proved what `machine` says and claims the rest. */
export interface ApplicantClaims {
  readonly nodeId: string;
  readonly machine: MachineRecord;
  readonly claimed: JoinRecord['claimed'];
}

/** What the cluster has on record about an applicant. */
export interface ApplicantRecords {
  /** The node that has its key. */
  readonly node: NodeRecord | undefined;
  /** The node that has its hardware, by whichever key. */
  readonly machineHolder: NodeRecord | undefined;
  /** Its own earlier request. */
  readonly join: JoinRecord | undefined;
  /** Who has a name, or has been promised it: a node id. */
  readonly nameHolder: (name: string) => string | undefined;
  /** Why an earlier removal of this machine keeps it out; undefined where it was never removed, or an owner readmitted it. */
  readonly whyExcluded: string | undefined;
  /** Which places in the control plane an owner has signed for this machine. */
  readonly missingSignatures: MissingSignatures;
}

/** Each undefined where an owner's signature is there, else why it is not; looked up where it matters. */
export interface MissingSignatures {
  /** Over the configuration in force, with its inventory. */
  readonly inventory: string | undefined;
  /** Over the roles that an operator approved for this machine. */
  readonly approval: string | undefined;
}

/** What a machine becomes. Never what it asks for: what its operators wrote. */
export interface NodeAssignment {
  readonly name: string;
  readonly roles: readonly Role[];
  readonly labels: Readonly<Record<string, string>>;
  /** "operator:NAME" or "policy:VERSION". */
  readonly decidedBy: string;
}

export type JoinDecision =
  /** It is a member already, with this very key. */
  | { readonly kind: 'member'; readonly node: NodeRecord }
  | { readonly kind: 'admit'; readonly assignment: NodeAssignment; readonly checks: readonly DecisionCheck[] }
  | {
      readonly kind: 'wait';
      readonly code: JoinErrorCode;
      readonly why: string;
      readonly checks: readonly DecisionCheck[];
    }
  | {
      readonly kind: 'refuse';
      readonly code: JoinErrorCode;
      readonly why: string;
      readonly checks: readonly DecisionCheck[];
    };

/** One thing that was looked at, for the trace. */
export interface DecisionCheck {
  readonly name: string;
  readonly outcome: 'pass' | 'wait' | 'fail';
  readonly expected: string;
  readonly actual: string;
}

/** Certificates are valid from five minutes before they are made. */
export const CLOCK_TOLERANCE_MS = 5 * 60 * 1000;

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** A node's name is in its kubelet's serving certificate: these are the API server's own, and every machine's for itself. */
const RESERVED: readonly string[] = ['kubernetes', 'localhost'];

/**
 * Decides about a machine. Pure: the same applicant, onRecord and policy give the same decision, here and in
 * `cluster explain`. Nothing that the machine claims can widen what it gets; it can only make it be refused.
 */
export function decideJoin(
  applicant: ApplicantClaims,
  onRecord: ApplicantRecords,
  at: { readonly policy: JoinPolicy; readonly nowMs: number },
): JoinDecision {
  const checks: DecisionCheck[] = [];
  const refused = refusalOf(applicant, onRecord, checks);
  if (refused !== undefined) return { ...refused, checks };
  if (onRecord.node !== undefined) return { kind: 'member', node: onRecord.node };
  const granted = grantOf(applicant, onRecord, at);
  checks.push(policyCheck(granted, at.policy, applicant.machine));
  if (!('grant' in granted)) return { ...granted, checks };
  const unsigned = unsignedPlace(granted.grant, onRecord.missingSignatures, checks);
  if (unsigned !== undefined) return { ...unsigned, checks };
  const denied = denialOf(applicant, onRecord, granted.grant, checks);
  return denied === undefined ? { kind: 'admit', assignment: granted.grant, checks } : { ...denied, checks };
}

type Refusal = { readonly kind: 'refuse'; readonly code: JoinErrorCode; readonly why: string };
type Wait = { readonly kind: 'wait'; readonly code: JoinErrorCode; readonly why: string };

/** What no policy can allow: a wrong clock, a machine that was taken out, a second membership of one machine. */
function refusalOf(
  { nodeId, machine, claimed }: ApplicantClaims,
  { node, machineHolder: holder, join, whyExcluded: removed }: ApplicantRecords,
  checks: DecisionCheck[],
): Refusal | undefined {
  const look = checker(checks);
  const offset = Math.round(claimed.clockOffsetMs / 1000);
  const isClockNear = Math.abs(claimed.clockOffsetMs) <= CLOCK_TOLERANCE_MS;
  look('clock', isClockNear, '±300 s', `${offset >= 0 ? '+' : ''}${offset} s`);
  if (!isClockNear) return refuse('join-clock-off', `its clock is off by ${offset} s`);
  const taken = [node, holder].find((each) => each?.state === 'DECOMMISSIONED');
  look('not decommissioned', taken === undefined, 'no decommissioned node', taken?.name ?? 'none');
  if (taken !== undefined) return refuse('join-decommissioned', `node ${taken.name} was decommissioned`);
  // A member is here because an owner readmitted it, however long that was good for.
  const isOut = node === undefined && removed !== undefined;
  look('not removed', !isOut, 'no removal of this machine', isOut ? removed : 'none');
  if (isOut) return refuse('join-decommissioned', removed);
  const known = node?.admission?.identity ?? (join?.state === 'approved' ? join.machine.identity : undefined);
  const isSame = known === undefined || known === machine.identity;
  look('same machine', isSame, known ?? 'any', machine.identity);
  if (!isSame) return refuse('join-identity-changed', `the key is on record for ${known}`);
  const other = holder !== undefined && holder.nodeId !== nodeId ? holder : undefined;
  look('one membership', other === undefined, 'no other node', other?.name ?? 'none');
  if (other !== undefined) return refuse('join-identity-taken', `this machine is node ${other.name}`);
  return undefined;
}

/** What operators gave this machine: for itself, in the inventory, or to all of its kind. */
function grantOf(
  applicant: ApplicantClaims,
  { join }: ApplicantRecords,
  { policy, nowMs }: { readonly policy: JoinPolicy; readonly nowMs: number },
): { readonly grant: NodeAssignment } | Refusal | Wait {
  const { machine } = applicant;
  const decision = join?.decision;
  if (join?.state === 'refused' && decision?.by.startsWith('operator:') === true)
    return refuse('join-refused', `${decision.by} refused it`);
  if (
    join?.state === 'approved' &&
    decision?.by.startsWith('operator:') === true &&
    decision.expiresMs > nowMs
  )
    return {
      grant: { name: decision.name, roles: decision.roles, labels: decision.labels, decidedBy: decision.by },
    };
  const entry = policy.inventory.find(({ identity }) => identity === machine.identity);
  const by = `policy:${policy.version}`;
  if (entry !== undefined)
    return {
      grant: { name: entry.name, roles: rolesOfEntry(entry.roles), labels: entry.labels, decidedBy: by },
    };
  switch (policy.policy) {
    case 'inventory':
      return refuse('join-unknown-machine', `${machine.identity} is not in the inventory`);
    case 'auto':
      return automatic(applicant, by);
    case 'approve':
      return wait(`an operator decides about ${machine.identity}`);
  }
}

/** `auto` and operators give workers; a place in the control plane is an owner's to give, in whatever form it is on record. */
function unsignedPlace(
  { roles, decidedBy: by }: NodeAssignment,
  { inventory, approval }: MissingSignatures,
  checks: DecisionCheck[],
): Wait | undefined {
  if (!isControlPlane(roles)) return undefined;
  const why = by.startsWith('operator:') ? approval : inventory;
  const expected = 'an owner signed this place in the control plane';
  checks.push({
    name: 'owner',
    outcome: why === undefined ? 'pass' : 'wait',
    expected,
    actual: why ?? 'signed',
  });
  return why === undefined ? undefined : { kind: 'wait', code: 'join-awaiting-owner', why };
}

/** Proved machines with measured software, as workers. Everybody else is for people to decide about. */
function automatic(
  { nodeId, machine, claimed }: ApplicantClaims,
  by: string,
): { readonly grant: NodeAssignment } | Refusal | Wait {
  if (machine.proof === 'unproved')
    return refuse('join-identity-unproved', `nobody vouches for ${machine.identity}`);
  if (machine.profile !== 'measured') return wait('its software is not measured (profile identity)');
  return {
    grant: { name: requestedName(claimed) ?? nodeId, roles: ['KubernetesWorker'], labels: {}, decidedBy: by },
  };
}

/** A machine that wants what it does not get is not the machine that its operators meant. */
function denialOf(
  { nodeId, claimed }: ApplicantClaims,
  { nameHolder }: ApplicantRecords,
  grant: NodeAssignment,
  checks: DecisionCheck[],
): Refusal | undefined {
  const look = checker(checks);
  const excess = claimed.roles.filter((role) => !(grant.roles as readonly string[]).includes(role));
  look('roles', excess.length === 0, `within ${grant.roles.join(' ')}`, claimed.roles.join(' ') || 'no wish');
  if (excess.length > 0) return refuse('join-role-denied', `it asks for ${excess.join(' ')}`);
  if (!isNodeName(grant.name)) return refuse('join-name-invalid', `the name ${JSON.stringify(grant.name)}`);
  const holder = nameHolder(grant.name);
  const isFree = holder === undefined || holder === nodeId;
  look('name', isFree, `${grant.name} is free`, isFree ? 'free' : `it belongs to ${holder}`);
  return isFree ? undefined : refuse('join-name-taken', `${grant.name} belongs to ${holder}`);
}

/** What an operator's yes without a name gives: what the machine wishes to be called, else its host name. */
export function requestedName(claimed: Pick<JoinRecord['claimed'], 'name' | 'hostname'>): string | undefined {
  const host = claimed.hostname.toLowerCase().split('.')[0] ?? '';
  return [claimed.name, host].find(isNodeName);
}

export function isNodeName(name: string): boolean {
  return NAME.test(name) && !RESERVED.includes(name);
}

function policyCheck(
  outcome: { readonly grant: NodeAssignment } | Refusal | Wait,
  policy: JoinPolicy,
  machine: MachineRecord,
): DecisionCheck {
  const expected = `join.policy: ${policy.policy} (${policy.version})`;
  if ('grant' in outcome) {
    const { grant } = outcome;
    const actual = `${grant.decidedBy}: ${grant.name} as ${grant.roles.join(' ')}`;
    return { name: 'policy', outcome: 'pass', expected, actual };
  }
  const actual = `${machine.identity} (${machine.proof}, ${machine.profile}): ${outcome.why}`;
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
