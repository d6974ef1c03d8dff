import { currentValue, follow } from '../../internal/event/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import { type ControlPlaneNode, directoryFromMembership } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { RoleValues } from './role-values.ts';

/**
 * Applies the known list of control planes, and then each newer list while the scope runs. Resolves after the first
 * one was applied.
 * @param membership its control planes are used until a curator has sent a list
 */
export async function followDirectory(
  scope: Scope,
  directory: RoleValues['clusterDirectory'],
  membership: Membership,
  apply: (known: readonly ControlPlaneNode[], signal: AbortSignal) => Promise<void>,
): Promise<void> {
  await apply(currentValue(directory) ?? directoryFromMembership(membership), scope.signal);
  scope.run('follow', async (child) => {
    child.healthy();
    for await (const known of follow(directory, child.signal))
      if (known !== undefined) await apply(known, child.signal);
  });
}
