import { RoleError } from './errors.ts';

/** The roles of a node, in the order in which their components start. */
export const ROLES = ['ConsensusMember', 'KubernetesController', 'KubernetesWorker'] as const;
/** One of `ROLES`. */
export type Role = (typeof ROLES)[number];

/**
 * Limits for the roles in a message of a peer. The limits leave room for role names of later versions, so that these
 * are refused as unknown and not as too long.
 */
export const MAX_ROLES = 8;
export const MAX_ROLE_CHARS = 64;

/** Roles that need another role on the same node. */
const NEEDS: Readonly<Partial<Record<Role, Role>>> = {
  // Each API server uses only the etcd member on its own node.
  KubernetesController: 'ConsensusMember',
};

/** Parses a set of roles: sorted, each once. @throws RoleError `role-unknown`, `role-conflict` */
export function parseRoles(names: readonly string[]): readonly Role[] {
  const unknown = names.find((name) => !isRole(name));
  if (unknown !== undefined) throw new RoleError('role-unknown', `unknown role "${unknown}"`);
  const roles = ROLES.filter((role) => names.includes(role));
  for (const role of roles) {
    const needed = NEEDS[role];
    if (needed !== undefined && !roles.includes(needed))
      throw new RoleError('role-conflict', `role ${role} requires ${needed}`);
  }
  return roles;
}

function isRole(name: string): name is Role {
  return (ROLES as readonly string[]).includes(name);
}

/** A control-plane node runs etcd and a curator. */
export function isControlPlane(roles: readonly Role[]): boolean {
  return roles.includes('ConsensusMember');
}

/** Whether a node runs only workloads, so that it has no key that control planes share. */
export function isOnlyWorker(roles: readonly string[]): boolean {
  return roles.length === 1 && roles[0] === 'KubernetesWorker';
}

/** The roles of a cluster's first node. */
export function firstNodeRoles(options: { readonly singleNode: boolean }): readonly Role[] {
  return options.singleNode ? ROLES : ['ConsensusMember', 'KubernetesController'];
}

/** A role as commands take and show it. */
export type RoleName = 'control-plane' | 'worker';

/** The name of each role of the records. Files of earlier releases also have the last two names. */
const NAMES: Readonly<Record<string, RoleName>> = {
  ConsensusMember: 'control-plane',
  KubernetesController: 'control-plane',
  KubernetesWorker: 'worker',
  consensus: 'control-plane',
  controller: 'control-plane',
};

/** The names of roles as commands show them, each once. Unknown names stay as they are. */
export function roleNames(roles: readonly string[]): readonly string[] {
  return [...new Set(roles.map((role) => (Object.hasOwn(NAMES, role) ? NAMES[role] : undefined) ?? role))];
}
