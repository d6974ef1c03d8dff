import { isControlPlane, type Role } from './role.ts';
import { counted } from '../printable/index.ts';

/** The fields of a node that the guards of a role change read. */
export interface GuardedNode {
  readonly nodeId: string;
  readonly name: string;
  readonly roles: readonly Role[];
  /** Whether its heartbeat is current. */
  readonly isAlive: boolean;
  /**
   * The state of the node's API server according to its agent; undefined if the agent has reported nothing
   * yet.
   */
  readonly apiServer: { readonly isReady: boolean; readonly reason: string } | undefined;
}

/** The members of the state etcd. */
export interface EtcdMemberCounts {
  readonly hasLeader: boolean;
  readonly voters: number;
  readonly learners: number;
}

/**
 * The guard that refuses a role change. `no-quorum`: etcd has no quorum now; `quorum-loss`: etcd would have
 * no quorum afterwards.
 */
export type RoleChangeGuard =
  'last-control-plane' | 'last-api-server' | 'no-leader' | 'no-quorum' | 'quorum-loss' | 'learner-present';

interface RoleChangeRefusal {
  readonly guard: RoleChangeGuard;
  /** For people: a clause without the name of the node. */
  readonly reason: string;
}

interface BeforeAfter {
  readonly before: number;
  readonly after: number;
}

/** The effect of a role change on etcd, and the guards that refuse the change. */
interface RoleChangeCheck {
  readonly voters: BeforeAfter;
  readonly quorum: BeforeAfter;
  /** Control planes with a current heartbeat. */
  readonly healthy: BeforeAfter;
  /** Empty if the change may be made. */
  readonly refusals: readonly RoleChangeRefusal[];
}

/** The number of these voters that must agree (Raft). */
export function quorumOf(voters: number): number {
  return Math.floor(voters / 2) + 1;
}

/**
 * The guards of a role change, in one place: the curator enforces them, the CLI shows them before it calls the curator,
 * and the agent checks `leaveGuard` again with the responding members of etcd.
 * @param cluster `controlPlanes`: the nodes that are UP and run etcd, including the changing node if it is one of them
 */
export function checkRoleChange(
  change: { readonly node: GuardedNode; readonly roles: readonly Role[] },
  cluster: { readonly controlPlanes: readonly GuardedNode[]; readonly etcd: EtcdMemberCounts },
): RoleChangeCheck {
  const { node, roles } = change;
  const { controlPlanes, etcd } = cluster;
  const leaves = isControlPlane(node.roles) && !isControlPlane(roles);
  const enters = !isControlPlane(node.roles) && isControlPlane(roles);
  const others = controlPlanes.filter(({ nodeId }) => nodeId !== node.nodeId);
  const alive = controlPlanes.filter(({ isAlive }) => isAlive);
  const isCounted = alive.some(({ nodeId }) => nodeId === node.nodeId);
  const joining = enters ? 1 : 0;
  const voters = { before: etcd.voters, after: etcd.voters + joining - (leaves ? 1 : 0) };
  const healthy = { before: alive.length, after: alive.length + joining - (leaves && isCounted ? 1 : 0) };
  const quorum = { before: quorumOf(voters.before), after: quorumOf(voters.after) };
  const refusals: RoleChangeRefusal[] = [];
  const refuse = (guard: RoleChangeGuard, reason: string): number => refusals.push({ guard, reason });
  const leaving = leaves
    ? leaveGuard({ controlPlanes: others.length, voters: voters.after, healthy: healthy.after })
    : undefined;
  const apiServers = leaving === 'last-control-plane' ? undefined : apiServerGuard(node, roles, others);
  if (leaving === 'last-control-plane') refuse(leaving, 'it is the last control-plane node');
  if (apiServers !== undefined) refuse('last-api-server', apiServers);
  if ((leaves || enters) && !etcd.hasLeader)
    refuse('no-leader', 'etcd has no leader and cannot change members');
  if ((leaves || enters) && healthy.before < quorum.before)
    refuse(
      'no-quorum',
      `etcd has only ${healthy.before} healthy of ${counted(voters.before, 'voter')}, ${quorum.before} needed`,
    );
  if (leaving === 'quorum-loss')
    refuse(
      leaving,
      `etcd would have ${healthy.after} healthy of ${counted(voters.after, 'voter')}, ${quorum.after} needed`,
    );
  if (enters && etcd.learners > 0)
    refuse('learner-present', 'another control plane is joining: one at a time');
  return { voters, quorum, healthy, refusals };
}

/**
 * Whether a voting member of etcd may leave; all counts exclude this member.
 * @returns the guard that refuses, undefined if the member may leave
 */
export function leaveGuard(remaining: {
  readonly controlPlanes: number;
  readonly voters: number;
  readonly healthy: number;
}): 'last-control-plane' | 'quorum-loss' | undefined {
  if (remaining.controlPlanes === 0) return 'last-control-plane';
  return remaining.healthy < quorumOf(remaining.voters) ? 'quorum-loss' : undefined;
}

/**
 * Why the role change would leave Kubernetes without an API server. Undefined if another API server is ready, or if the
 * API server of this node does not work anyway (the node is lost, or reports its API server as not ready).
 */
function apiServerGuard(
  { roles: before, isAlive, apiServer }: GuardedNode,
  after: readonly Role[],
  others: readonly GuardedNode[],
): string | undefined {
  if (!before.includes('KubernetesController') || after.includes('KubernetesController')) return undefined;
  if (!isAlive || apiServer?.isReady === false) return undefined;
  const servers = others.filter(({ roles }) => roles.includes('KubernetesController'));
  if (servers.some((each) => each.isAlive && each.apiServer?.isReady === true)) return undefined;
  const reasons = servers.map((each) => `${each.name}: ${whyNotServing(each)}`);
  return `no other control plane has a ready API server (${reasons.join(', ') || 'the cluster has only this control plane'}); see \`cluster node show NODE\``;
}

function whyNotServing({ isAlive, apiServer }: GuardedNode): string {
  if (!isAlive) return 'no heartbeat';
  return apiServer === undefined ? 'its agent has not reported its API server yet' : apiServer.reason;
}
