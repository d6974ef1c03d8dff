import type { Membership } from '../membership/index.ts';

/** A control-plane node in the directory. */
export interface ControlPlaneNode {
  readonly nodeId: string;
  /** Address or name at which other nodes reach it, without a port. */
  readonly host: string;
  /** Whether its curator has announced that it serves. */
  readonly curator: boolean;
  /** Whether it has the role that runs an API server. */
  readonly apiServer: boolean;
}

/** All control-plane nodes; never empty. Not trusted: peers must prove their identity. */
export type ClusterDirectory = readonly [ControlPlaneNode, ...ControlPlaneNode[]];

/** The directory that came with the membership, for use until a curator sends one; empty without a membership. */
export function directoryFromMembership(
  membership: Pick<Membership, 'directory'> | undefined,
): readonly ControlPlaneNode[] {
  return (membership?.directory ?? []).map((entry) => ({ ...entry, curator: true, apiServer: true }));
}
