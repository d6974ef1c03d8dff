import { diagnose, type Finding } from './diagnose.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import type { DoctorErrorCode } from './errors.ts';

/**
 * Errors that refuse a change of the members of etcd, or a restart of one: what stays must be right and must accept writes, and a
 * good member does not start while a damaged one runs. With too few healthy voters the curator refuses the change itself
 * (internal/role).
 */
const MEMBERSHIP_GATES: readonly DoctorErrorCode[] = ['doctor-etcd-content', 'doctor-etcd-full'];

/** A change of the roles of a node, its removal or its restart. An empty `node`: all control planes, one after the other. */
export interface MembershipChange {
  /** Name or ID of the node. */
  readonly node: string;
  /** Whether the node becomes a control plane, or stays one. */
  readonly staysControlPlane: boolean;
}

/**
 * The problem that a change of the members of etcd must wait for; undefined if there is none, or if the change leaves etcd as it is. A node whose own
 * member is damaged may be taken out: that is the cure.
 */
export function gateOf(facts: ClusterFacts, change: MembershipChange): Finding | undefined {
  const { records } = facts;
  if (!records.ok) return undefined; // the change fails for the same reason
  const node = records.value.nodes.find(({ id, name }) => id === change.node || name === change.node);
  if (node?.isControlPlane === change.staysControlPlane) return undefined;
  return diagnose(facts).find(
    (each) =>
      each.grade === 'error' &&
      MEMBERSHIP_GATES.includes(each.code) &&
      (each.node === undefined || each.node !== node?.name),
  );
}

/**
 * The problem that makes the data of this control plane the wrong data to back up; undefined if there is none. Without a majority nobody
 * can say which member is right, so this is a problem of every control plane.
 * @param node name of the control plane
 */
export function backupGateOf(facts: ClusterFacts, node: string): Finding | undefined {
  return diagnose(facts).find(
    (each) =>
      each.grade === 'error' &&
      each.code === 'doctor-etcd-content' &&
      (each.node === undefined || each.node === node),
  );
}
