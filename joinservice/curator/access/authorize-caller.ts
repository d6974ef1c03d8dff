import { getOption, hasOption, type DescMethod } from '@bufbuild/protobuf';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import { fingerprintOfKey, type MemberIdentity } from '../../../internal/pki/index.ts';
import { records, type OperatorRole } from '../../../internal/records/index.ts';
import { isMemberState } from '../../../internal/role/index.ts';
import { OperatorApi } from '../../curatorproto/gen/operatorapi_pb.js';
import { Curator, Permission, permission as permissionOption } from '../../curatorproto/gen/curator_pb.js';
import { CuratorError } from '../errors.ts';

/** Who calls, as etcd has it now. */
export type Caller =
  | { readonly kind: 'node'; readonly nodeId: string; readonly name: string }
  | {
      readonly kind: 'operator';
      readonly fingerprint: string;
      readonly name: string;
      readonly role: OperatorRole;
    };

const OPERATOR_PERMISSIONS: Readonly<Record<OperatorRole, readonly Permission[]>> = {
  viewer: [Permission.READ, Permission.INSPECT],
  operator: [Permission.READ, Permission.INSPECT, Permission.ADMINISTER],
  owner: [Permission.READ, Permission.INSPECT, Permission.ADMINISTER, Permission.OWN],
};
const NODE_PERMISSIONS: readonly Permission[] = [Permission.READ, Permission.SELF];

/** What may be asked for by the key alone, by whom the method is open to anyway: a certificate is in the answer. */
const BY_KEY: readonly DescMethod[] = [Curator.method.getInitResult, OperatorApi.method.renewOperator];

/**
 * Admits a call or throws. The certificate says who somebody is; whether they are a member is asked of etcd for each
 * call, linearizably: who was deleted a moment ago is refused by every curator, and when etcd cannot answer, everybody is.
 */
export async function authorizeCaller(
  etcd: KeySpace,
  call: { readonly identity: MemberIdentity; readonly method: DescMethod; readonly signal: AbortSignal },
): Promise<Caller> {
  if (
    call.identity.kind === 'operator' &&
    call.identity.isKeyOnly === true &&
    !BY_KEY.includes(call.method)
  ) {
    throw new CuratorError(
      'curator-denied',
      `calling ${call.method.name} with a bare key: it needs a certificate of the cluster`,
    );
  }
  const caller = await findCaller(etcd, call.identity, call.signal);
  const needed = permissionOf(call.method);
  const held = caller.kind === 'node' ? NODE_PERMISSIONS : OPERATOR_PERMISSIONS[caller.role];
  if (needed === Permission.UNSPECIFIED || !held.includes(needed)) {
    const who = caller.kind === 'node' ? `node ${caller.name}` : `${caller.role} ${caller.name}`;
    const what = `calling ${call.method.name} as ${who}: it needs ${Permission[needed].toLowerCase()}`;
    throw new CuratorError('curator-denied', what, { details: { method: call.method.name } });
  }
  return caller;
}

/** What a method is annotated with; UNSPECIFIED, which nobody holds, where it is not. */
export function permissionOf(method: DescMethod): Permission {
  return hasOption(method, permissionOption) ? getOption(method, permissionOption) : Permission.UNSPECIFIED;
}

/** For the audit: "node:ID" or "operator:NAME". */
export function nameOfCaller(caller: Caller): string {
  return caller.kind === 'node' ? `node:${caller.nodeId}` : `operator:${caller.name}`;
}

/** The key in etcd whose absence ends this caller's membership. */
export function membershipKeyOf(identity: MemberIdentity): string {
  return identity.kind === 'node'
    ? records.node.key(identity.nodeId)
    : records.operator.key(identity.fingerprint);
}

async function findCaller(etcd: KeySpace, identity: MemberIdentity, signal: AbortSignal): Promise<Caller> {
  const key = membershipKeyOf(identity);
  const entry = await etcd.get(key, { signal });
  if (entry !== undefined) {
    if (identity.kind === 'operator') {
      const { name, role, fingerprint } = records.operator.decode(key, entry.value);
      if (fingerprint === identity.fingerprint) return { kind: 'operator', fingerprint, name, role };
    } else {
      const { nodeId, name, pubKey, state } = records.node.decode(key, entry.value);
      const isKeyOnRecord = fingerprintOfKey(Buffer.from(pubKey, 'base64')) === identity.fingerprint;
      if (isKeyOnRecord && isMemberState(state)) return { kind: 'node', nodeId, name };
    }
  }
  const who = identity.kind === 'node' ? `node ${identity.nodeId}` : `operator ${identity.name}`;
  throw new CuratorError('curator-not-member', `admitting ${who}: its key is on no record of a member`);
}
