import type { DiskShares } from '../../internal/statedisk/index.ts';
import { isApprovable, isApprovableBy } from '../../internal/tpm/index.ts';
import { authorityOf } from './disk-seals.ts';
import type { DiskPorts } from './disk-settings.ts';
import type { OpenDisk, Ready } from './disk-state.ts';
import { renewKeys } from './renew-keys.ts';

/**
 * Gives an open disk new shares if the present ones are not sealed for the approval key of the provisioning: the disk is from an
 * earlier release, or the key is new or was removed. So neither an approval of the key before, nor the seals before, open anything. The new seals are tested
 * before they replace the old ones. If that fails, the disk stays as it was, and the next start tries again.
 */
export async function sealForApprovals(
  ports: DiskPorts,
  disk: OpenDisk & { readonly state: Ready },
  shares: DiskShares,
  signal: AbortSignal,
): Promise<void> {
  const { settings, state } = disk;
  const { content } = state.record;
  const authority = authorityOf(settings, content);
  const isRight =
    authority === undefined ? !isApprovable(content.nodeShare) : isApprovableBy(content.nodeShare, authority);
  if (isRight) return;
  try {
    await renewKeys(ports, { disk, before: shares, order: undefined }, signal);
    ports.log.info('state disk given new shares for the approval key of the provisioning', {
      uuid: content.uuid,
      hasKey: authority !== undefined,
    });
  } catch (error) {
    signal.throwIfAborted();
    ports.log.warn('state disk not given new shares for the approval key of the provisioning', { error });
  }
}
