import type { VerifiedDocument } from '../../internal/ownerdocument/index.ts';
import type { InventoryMachine } from '../../internal/config/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import { keyIdentityOf, type NodeRecord } from '../../internal/records/index.ts';
import { isControlPlane, parseRoles, type Role } from '../../internal/role/index.ts';

/** The subject of a grant: an owner grants roles to this node key on this machine. */
export interface GrantSubject {
  readonly nodeId: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly pubKeyDer: Uint8Array;
  readonly identity: string;
}

/**
 * Returns the subject that a grant for this member must have. The first node, which never joined, is identified by
 * its node key alone.
 */
export function grantSubjectOf({ nodeId, pubKey, admission }: NodeRecord): GrantSubject {
  const pubKeyDer = Buffer.from(pubKey, 'base64');
  return { nodeId, pubKeyDer, identity: admission?.identity ?? keyIdentityOf(pubKeyDer) };
}

/** Whether a grant gives these roles to this node key on this machine. */
export function isGranted(
  grant: VerifiedDocument<'grant'> | undefined,
  { nodeId, pubKeyDer, identity }: GrantSubject,
  roles: readonly Role[],
): boolean {
  if (grant === undefined) return false;
  const { body } = grant;
  return (
    body.nodeId === nodeId &&
    body.fingerprint === fingerprintOfKey(pubKeyDer) &&
    body.identity === identity &&
    roles.every((role) => body.roles.includes(role))
  );
}

/** Whether an inventory gives a machine at least these roles. Valid only if an owner signed the inventory. */
export function isListedAs(
  inventory: readonly InventoryMachine[],
  identity: string,
  roles: readonly Role[],
): boolean {
  const entry = inventory.find((each) => each.identity === identity);
  const given = entry === undefined ? [] : rolesOfEntry(entry.roles);
  return roles.every((role) => given.includes(role));
}

const ROLE_SETS: Readonly<Record<InventoryMachine['roles'][number], readonly Role[]>> = {
  'control-plane': ['ConsensusMember', 'KubernetesController'],
  worker: ['KubernetesWorker'],
};

/** The roles of an inventory entry. */
export function rolesOfEntry(names: InventoryMachine['roles']): readonly Role[] {
  return parseRoles(names.flatMap((name) => ROLE_SETS[name]));
}

/** Whether `to` has control-plane roles that `from` does not have. */
export function gainsControlPlane(from: readonly Role[], to: readonly Role[]): boolean {
  return isControlPlane(to) && to.some((role) => role !== 'KubernetesWorker' && !from.includes(role));
}
