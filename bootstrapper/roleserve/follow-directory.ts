import { currentValue, follow, type Readable } from '../../internal/event/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import {
  type ClusterDirectory,
  type ControlPlaneNode,
  directoryFromMembership,
} from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';

export interface FollowDirectoryOptions {
  readonly directory: Readable<ClusterDirectory | undefined>;
  /** Its ticket names control planes until the cluster has told more. */
  readonly membership: Membership;
  readonly apply: (known: readonly ControlPlaneNode[], signal: AbortSignal) => Promise<void>;
}

/** Resolves when what is known of control planes is served; each newer directory is, for as long as the scope runs. */
export async function followDirectory(
  scope: Scope,
  { directory, membership, apply: serve }: FollowDirectoryOptions,
): Promise<void> {
  await serve(currentValue(directory) ?? directoryFromMembership(membership), scope.signal);
  scope.run('follow', async (child) => {
    child.healthy();
    for await (const told of follow(directory, child.signal))
      if (told !== undefined) await serve(told, child.signal);
  });
}
