import type { DescMethod } from '@bufbuild/protobuf';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import { fingerprintOfKey, type MemberIdentity } from '../../../internal/pki/index.ts';
import { records } from '../../../internal/records/index.ts';
import { isMemberState, type OperatorRole } from '../../../internal/role/index.ts';
import type { OwnerDocuments } from '../../ownerdocs/index.ts';
import { CuratorError } from '../errors.ts';
import { accessRuleOf, type AccessRule } from './access-rules.ts';

/** A caller with its record in etcd, which is read for each call. */
export type Caller =
  | {
      readonly kind: 'node';
      readonly nodeId: string;
      readonly name: string;
      /** IP addresses in the certificate of the node. */
      readonly addresses: readonly string[];
    }
  | {
      readonly kind: 'operator';
      readonly fingerprint: string;
      readonly name: string;
      readonly role: OperatorRole;
    };

/** Reads the records of callers and the documents that owners have signed. */
export interface CallerReads {
  readonly etcd: KeySpace;
  readonly ownerDocs: OwnerDocuments;
}

/** From the lowest: each role may do what the roles before it may. */
const RANKS: readonly OperatorRole[] = ['viewer', 'operator', 'owner'];

/**
 * Authorizes a call. The certificate identifies the caller. The record and role of the caller are read from etcd for
 * each call, linearizably. So every curator refuses a deleted caller at once, and refuses all callers while etcd is
 * unavailable. A record alone is not enough for an operator: an owner must have signed its name, key and role.
 * @throws CuratorError `curator-denied`, `curator-not-member`, `curator-operator-unsigned`
 */
export async function authorizeCaller(
  reads: CallerReads,
  call: { readonly identity: MemberIdentity; readonly method: DescMethod; readonly signal: AbortSignal },
): Promise<Caller> {
  const rule = accessRuleOf(call.method);
  const isKeyOnly = call.identity.kind === 'operator' && call.identity.isKeyOnly === true;
  if (isKeyOnly && rule?.byKeyAlone !== true)
    throw new CuratorError(
      'curator-denied',
      `cannot call ${call.method.name} without a certificate of the cluster`,
    );
  const caller = await findCaller(reads, call.identity, call.signal);
  if (rule === undefined || !isAllowed(caller, rule)) {
    const who = caller.kind === 'node' ? `node ${caller.name}` : `${caller.role} ${caller.name}`;
    const what = `cannot call ${call.method.name} as ${who}: requires ${requirementOf(rule)}`;
    throw new CuratorError('curator-denied', what, { details: { method: call.method.name } });
  }
  return caller;
}

function isAllowed(caller: Caller, { lowestRole, nodesToo }: AccessRule): boolean {
  if (caller.kind === 'node') return nodesToo;
  return lowestRole !== undefined && RANKS.indexOf(caller.role) >= RANKS.indexOf(lowestRole);
}

/** A text for messages that describes the allowed callers. */
function requirementOf(rule: AccessRule | undefined): string {
  if (rule === undefined) return 'a permission that nobody has';
  const { lowestRole, nodesToo } = rule;
  if (lowestRole === undefined) return 'a node';
  if (nodesToo) return 'a member node, or any operator role';
  return `role ${RANKS.slice(RANKS.indexOf(lowestRole))
    .join(', ')
    .replace(/, (?=[a-z]+$)/, ' or ')}`;
}

/** "node:ID" or "operator:NAME", for the audit log. */
export function nameOfCaller(caller: Caller): string {
  return caller.kind === 'node' ? `node:${caller.nodeId}` : `operator:${caller.name}`;
}

/** The etcd key of the record without which this caller is not a member. */
export function membershipKeyOf(identity: MemberIdentity): string {
  return identity.kind === 'node'
    ? records.node.key(identity.nodeId)
    : records.operator.key(identity.fingerprint);
}

async function findCaller(
  reads: CallerReads,
  identity: MemberIdentity,
  signal: AbortSignal,
): Promise<Caller> {
  const caller =
    identity.kind === 'node'
      ? await findNode(reads, identity, signal)
      : await findOperator(reads, identity, signal);
  if (caller !== undefined) return caller;
  const who = identity.kind === 'node' ? `node ${identity.nodeId}` : `operator ${identity.name}`;
  throw new CuratorError('curator-not-member', `${who} is not a member of this cluster`);
}

async function findNode(
  { etcd }: CallerReads,
  identity: MemberIdentity & { readonly kind: 'node' },
  signal: AbortSignal,
): Promise<Caller | undefined> {
  const { record } = await records.node.read(etcd, membershipKeyOf(identity), signal);
  if (record === undefined || !isMemberState(record.state)) return undefined;
  const isKeyOnRecord = fingerprintOfKey(Buffer.from(record.pubKey, 'base64')) === identity.fingerprint;
  const { nodeId, name } = record;
  return isKeyOnRecord ? { kind: 'node', nodeId, name, addresses: identity.addresses } : undefined;
}

async function findOperator(
  { ownerDocs }: CallerReads,
  identity: MemberIdentity & { readonly kind: 'operator' },
  signal: AbortSignal,
): Promise<Caller | undefined> {
  const found = await ownerDocs.recordedOperator(identity.fingerprint, signal);
  if (found?.record.fingerprint !== identity.fingerprint) return undefined;
  const { fingerprint, name, role } = found.record;
  if (found.whyUnsigned !== undefined)
    throw new CuratorError(
      'curator-operator-unsigned',
      `cannot authorize ${role} ${name} (${fingerprint}): ${found.whyUnsigned}`,
    );
  return { kind: 'operator', fingerprint, name, role };
}
