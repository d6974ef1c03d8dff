import { isSealedShare, recordKey, slotKey, type DiskShares } from '../../internal/statedisk/index.ts';
import { replaceSlots } from './cryptsetup.ts';
import { endEarlierSeals, randomSecret, sealNodeShare, sealShares, testSeals } from './disk-seals.ts';
import type { DiskPorts } from './disk-settings.ts';
import { commit, type OpenDisk, type Ready } from './disk-state.ts';
import { createOwnerParts } from './owner-parts.ts';

/** A disk whose record the machine has verified, and that is to get new keys. */
interface KeyRenewal {
  readonly disk: OpenDisk & { readonly state: Ready };
  /** The shares that open the disk now. */
  readonly before: DiskShares;
  /** SHA-256 of the order of an owner, who then gets a new recovery key too; undefined: the recovery key stays. */
  readonly order: Uint8Array | undefined;
}

/**
 * Gives a disk new shares and a new first slot. A share that a signer derives stays the same, so that only the node share of such a disk is new. The new
 * seals and slots are tested before they replace the earlier ones, in one record; then the TPM ends the earlier seals. A run that is cut leaves a disk that
 * opens with the earlier keys, or with the new ones: `verified()` completes it then. Approvals of other registers end, because they do not name the new seals.
 * @returns whether the cluster share is a new one
 */
export async function renewKeys(
  ports: DiskPorts,
  { disk, before, order }: KeyRenewal,
  signal: AbortSignal,
): Promise<boolean> {
  const { settings, slots, state, cryptsetup } = disk;
  const { content } = state.record;
  const { uuid } = content;
  const isKept = isSealedShare(content.clusterShare);
  const shares = { node: randomSecret(), cluster: isKept ? randomSecret() : before.cluster };
  const recoveryKey = order === undefined ? undefined : randomSecret();
  const [from, to] = [slotKey(before, uuid), slotKey(shares, uuid)];
  const header = await replaceSlots(cryptsetup, content.header, { from, to, recoveryKey });
  const parts = recoveryKey === undefined ? {} : await createOwnerParts(recoveryKey, { uuid, settings });
  const of = { uuid, generation: 'next' } as const;
  const seals = isKept
    ? await sealShares(ports, settings, { ...of, shares }, signal)
    : await sealNodeShare(ports, settings, { ...of, node: shares.node }, signal);
  const next = {
    ...{ ...content, ...parts, ...seals, approval: undefined, header },
    rotation: order ?? content.rotation,
  };
  await testSeals(ports, settings, { content: next, shares }, signal);
  const slot = state.slot === 0 ? 1 : 0;
  await commit(ports, { slots, slot, content: next, key: recordKey(shares.node, uuid) }, signal);
  await endEarlierSeals(ports, settings, next, signal);
  return isKept;
}
