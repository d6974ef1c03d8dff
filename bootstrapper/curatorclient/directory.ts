import type { Membership } from '../membership/index.ts';

/** A control-plane node as the cluster knows it. */
export interface ControlPlaneNode {
  readonly nodeId: string;
  /** Where other nodes reach it; no port. */
  readonly host: string;
  /** Whether its curator was seen to serve. */
  readonly curator: boolean;
  /** Whether it is to run an API server. */
  readonly apiServer: boolean;
}

/** All control-plane nodes; never empty. Untrusted by itself: peers prove themselves. */
export type ClusterDirectory = readonly [ControlPlaneNode, ...ControlPlaneNode[]];

/** What a member knows as long as nobody told it more; empty without a membership. */
export function directoryFromMembership(
  membership: Pick<Membership, 'directory'> | undefined,
): readonly ControlPlaneNode[] {
  return (membership?.directory ?? []).map((entry) => ({ ...entry, curator: true, apiServer: true }));
}
