import type { Membership } from '../membership/index.ts';

/** A control-plane node in the directory (the cluster's list of control planes). */
export interface ControlPlaneNode {
  readonly nodeId: string;
  /** Address or name at which other nodes reach this node, without a port. */
  readonly host: string;
  /** Whether the curator of this node has announced that it serves. */
  readonly curator: boolean;
  /** Whether this node has the role that runs an API server. */
  readonly apiServer: boolean;
}

/** All control-plane nodes; never empty. The list is not trusted: each peer must prove its identity. */
export type ClusterDirectory = readonly [ControlPlaneNode, ...ControlPlaneNode[]];

/**
 * The list of control planes that came with the membership. It is used until a curator sends a list. Empty without a
 * membership.
 */
export function directoryFromMembership(
  membership: Pick<Membership, 'directory'> | undefined,
): readonly ControlPlaneNode[] {
  return (membership?.directory ?? []).map((entry) => ({ ...entry, curator: true, apiServer: true }));
}
