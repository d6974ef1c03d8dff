import { isSealedShare, recordKey, type DiskShares } from '../../internal/statedisk/index.ts';
import { isApprovable, isApprovableBy } from '../../internal/tpm/index.ts';
import { authorityOf, sealShares, testSeals } from './disk-seals.ts';
import type { DiskPorts } from './disk-settings.ts';
import { commit, type OpenDisk, type Ready } from './disk-state.ts';

/**
 * Seals the shares of an open disk again if they are not sealed for the approval key of the provisioning: the disk is from an
 * earlier release, or the key is new or was removed. The new seals are tested before they replace the old ones. If that fails, the disk stays as it
 * was, and the next start tries again.
 */
export async function sealForApprovals(
  ports: DiskPorts,
  { settings, slots, state }: OpenDisk & { readonly state: Ready },
  shares: DiskShares,
  signal: AbortSignal,
): Promise<void> {
  const { content } = state.record;
  const authority = authorityOf(settings, content);
  const isRight =
    authority === undefined ? !isApprovable(content.nodeShare) : isApprovableBy(content.nodeShare, authority);
  if (isRight) return;
  try {
    const { uuid } = content;
    const seals = await sealShares(ports, settings, { shares, uuid, generation: 'current' }, signal);
    // A machine that does not keep its cluster share seals it for nobody.
    const clusterShare = isSealedShare(content.clusterShare) ? seals.clusterShare : content.clusterShare;
    const next = { ...content, ...seals, clusterShare, approval: undefined };
    await testSeals(ports, settings, { content: next, shares }, signal);
    const slot = state.slot === 0 ? 1 : 0;
    await commit(ports, { slots, slot, content: next, key: recordKey(shares.node, uuid) }, signal);
    ports.log.info('shares of the state disk sealed for the approval key of the provisioning', {
      uuid,
      hasKey: authority !== undefined,
    });
  } catch (error) {
    signal.throwIfAborted();
    ports.log.warn('state disk not sealed for the approval key of the provisioning', { error });
  }
}
