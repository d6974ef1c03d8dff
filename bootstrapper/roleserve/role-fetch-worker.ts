import { parseRoles, type Role } from '../../internal/role/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import {
  type Node,
  NodeRole,
  type WatchNodesResponse,
  type WatchPosition,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { RoleSet, RoleValues } from './role-values.ts';

/** Inputs and ports (injected dependencies) of the role fetch worker. */
export interface RoleFetchOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership'>;
  readonly curators: Curators;
  /**
   * Saves the roles, which the node uses if it starts without a curator. Durable when the promise resolves.
   */
  readonly saveRoles: (roles: readonly Role[]) => Promise<void>;
  /** Publishes the roles after they are on disk. */
  readonly onRolesAssigned: (roles: RoleSet) => void;
}

/** Creates a worker that runs while this node is a member; `start` adds its runnables to the scope. */
export function memberWorker(
  { reads }: { readonly reads: Pick<RoleValues, 'clusterMembership'> },
  start: (scope: Scope, membership: Membership) => void | Promise<void>,
): Runnable {
  return launcher({
    input: reads.clusterMembership,
    plan: (membership) =>
      membership === undefined
        ? { kind: 'wait', why: 'the membership of this node' }
        : { kind: 'start', config: membership },
    start: async (scope, membership) => start(scope, membership),
  });
}

/**
 * Returns a function that a runnable calls at each success: the first call reports it as healthy and as
 * waiting for nothing.
 */
export function reportWorking(scope: Scope): () => void {
  let isHealthy = false;
  return () => {
    if (!isHealthy) scope.healthy();
    isHealthy = true;
    scope.waiting(undefined);
  };
}

/** Follows the roles that the cluster assigns to this node. */
export function roleFetchWorker(options: RoleFetchOptions): Runnable {
  return memberWorker(
    options,
    (scope, membership) => void scope.run('watch', (watch) => follow(options, membership, watch)),
  );
}

async function follow(
  { curators, saveRoles, onRolesAssigned }: RoleFetchOptions,
  { nodeId }: Membership,
  scope: Scope,
): Promise<void> {
  let known: string | undefined;
  let after: WatchPosition | undefined;
  scope.waiting('roles of this node from a curator');
  const take = async (message: WatchNodesResponse): Promise<void> => {
    // A response may contain other nodes, which are ignored.
    const own = message.nodes.find((node) => node.nodeId === nodeId);
    if (own !== undefined && rolesFromNode(own).join() !== known) {
      const roles = rolesFromNode(own);
      await saveRoles(roles);
      known = roles.join();
      scope.log.info('the cluster assigns roles', { roles });
      onRolesAssigned(new Set(roles));
    }
    after = message.position ?? after;
  };
  const onResponse = reportWorking(scope);
  await curators.use(
    async ({ client, endpoint }, signal) => {
      const request = { nodeId, ...(after === undefined ? {} : { after }) };
      for await (const message of client.watchNode(request, { signal })) {
        onResponse();
        await take(message);
      }
      throw new Error(`curator ${endpoint} ended the watch`);
    },
    { signal: scope.signal },
  );
}

const ROLE_NAMES: Readonly<Record<NodeRole, Role | undefined>> = {
  [NodeRole.UNSPECIFIED]: undefined,
  [NodeRole.CONSENSUS_MEMBER]: 'ConsensusMember',
  [NodeRole.KUBERNETES_CONTROLLER]: 'KubernetesController',
  [NodeRole.KUBERNETES_WORKER]: 'KubernetesWorker',
};

/** An unknown role rejects the whole update, so that the last known roles stay active. */
function rolesFromNode(node: Node): readonly Role[] {
  return parseRoles(node.roles.map((role) => ROLE_NAMES[role] ?? `role ${role}`));
}
