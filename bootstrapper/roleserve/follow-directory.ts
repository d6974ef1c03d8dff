import { currentValue, follow, type Readable } from '../../internal/event/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import {
  type ClusterDirectory,
  type ControlPlaneNode,
  directoryFromMembership,
} from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';

/** What is applied, and the directory that it follows. */
export interface FollowDirectoryOptions {
  readonly directory: Readable<ClusterDirectory | undefined>;
  /** Names control planes until a curator has sent a directory. */
  readonly membership: Membership;
  readonly apply: (known: readonly ControlPlaneNode[], signal: AbortSignal) => Promise<void>;
}

/** Applies the known directory, then each newer one while the scope runs. Resolves after the first. */
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
