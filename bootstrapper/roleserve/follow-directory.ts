import { currentValue, follow, type Readable } from '../../internal/event/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import {
  type ClusterDirectory,
  type ControlPlaneNode,
  directoryFromMembership,
} from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';

/** The function that applies a directory, and the directory to follow. */
export interface FollowDirectoryOptions {
  readonly directory: Readable<ClusterDirectory | undefined>;
  /** The membership, whose control planes are used until a curator has sent a directory. */
  readonly membership: Membership;
  readonly apply: (known: readonly ControlPlaneNode[], signal: AbortSignal) => Promise<void>;
}

/**
 * Applies the known directory, and then each newer directory while the scope runs. Resolves after the first
 * one was applied.
 */
export async function followDirectory(
  scope: Scope,
  { directory, membership, apply }: FollowDirectoryOptions,
): Promise<void> {
  await apply(currentValue(directory) ?? directoryFromMembership(membership), scope.signal);
  scope.run('follow', async (child) => {
    child.healthy();
    for await (const known of follow(directory, child.signal))
      if (known !== undefined) await apply(known, child.signal);
  });
}
