import { createHash } from 'node:crypto';
import { isSealedShare } from '../../internal/statedisk/index.ts';
import { askTested, completeInterrupted, findDisk, verified, type AskShare } from './cluster-share.ts';
import { approvalOf, unsealShare } from './disk-seals.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { DiskError } from './errors.ts';
import { renewKeys } from './renew-keys.ts';

/** The order of an owner to give a disk new keys, whose signature the caller has verified. */
export interface RotationOrder {
  /** SHA-256 of what the owner has signed: an order that was carried out is not carried out again. */
  readonly digest: Uint8Array;
  /** UUID of the disk. */
  readonly uuid: string;
  /** SHA-256 of the sealed node share that the order replaces: no order counts for later keys. */
  readonly seal: Uint8Array;
  /** Who gets the new recovery key ("age1…"). */
  readonly recipients: readonly string[];
  /** How many of the recipients must act. */
  readonly threshold: number;
}

/** What a rotation has done. */
export interface KeyRotation {
  /** Whether the cluster share is a new one, or stays because a signer derives it. */
  readonly clusterShare: 'new' | 'kept';
  /** The number of sets of registers that were approved, and are no longer. */
  readonly endedApprovals: number;
  /** Whether the keys were new already: an earlier call with the same order has carried it out. */
  readonly isRepeated: boolean;
  /** Whether it was killed before its end, so that this call has completed it. */
  readonly wasInterrupted: boolean;
}

/** SHA-256 of a sealed share. */
export function digestOfSeal(sealed: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(sealed).digest());
}

/**
 * Gives an open disk new shares and a new recovery key, for the recipients of the order. The earlier keys open nothing on this disk afterwards, and the TPM
 * unseals none of the earlier shares. The volume key stays, and so do mappings and mounts. A run that is cut leaves a disk that opens, and whose record is the
 * earlier or the new one; the next start of the agent, or the same order, completes what was begun.
 * @throws DiskError `disk-rotation-refused`, `disk-locked`, and of a missing share; StateDiskError: nothing was changed
 */
export async function rotateDiskKeys(
  ports: DiskPorts,
  settings: DiskSettings,
  options: { readonly order: RotationOrder; readonly askShare: AskShare; readonly signal: AbortSignal },
): Promise<KeyRotation> {
  const { order, askShare, signal } = options;
  const found = await findDisk(ports, settings, signal, REFUSED);
  const { content } = found;
  if (order.uuid !== content.uuid) throw refused(`the order is for disk ${order.uuid}`);
  if (content.rotation !== undefined && isEqual(content.rotation, order.digest)) {
    const wasInterrupted = await completeInterrupted(ports, settings, signal);
    const clusterShare = isSealedShare(content.clusterShare) ? 'new' : 'kept';
    return { clusterShare, endedApprovals: 0, isRepeated: true, wasInterrupted };
  }
  if (!isEqual(digestOfSeal(content.nodeShare), order.seal))
    throw refused('the order is for earlier keys, which were replaced since');
  refuseOtherRecipients(settings, order);
  const disk = await verified(ports, found, signal);
  const { node } = disk;
  const { clusterShare: source } = content;
  const cluster = isSealedShare(source)
    ? await unsealShare(ports, settings, { which: 'cluster', content }, signal)
    : (await askTested({ disk, node, source, among: 'all' }, askShare, signal)).share;
  const renewal = { disk, before: { node, cluster }, order: order.digest };
  const isNew = await renewKeys(ports, renewal, signal);
  const endedApprovals = approvalOf(settings, content)?.software.length ?? 0;
  const clusterShare = isNew ? 'new' : 'kept';
  ports.log.warn('an owner has given the state disk new keys', { uuid: content.uuid, clusterShare });
  return { clusterShare, endedApprovals, isRepeated: false, wasInterrupted: false };
}

const REFUSED = 'disk-rotation-refused';

/** The owner has signed recipients and threshold: a provisioning file that was changed since then chooses no other ones. */
function refuseOtherRecipients(
  { recipients, recoveryThreshold }: DiskSettings,
  order: Pick<RotationOrder, 'recipients' | 'threshold'>,
): void {
  const text = (list: readonly string[]): string => list.toSorted().join();
  if (text(recipients) !== text(order.recipients))
    throw refused('the order names other recovery recipients than the provisioning file');
  if (recoveryThreshold !== order.threshold)
    throw refused(`the order demands ${order.threshold} owners, the provisioning file ${recoveryThreshold}`);
}

function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}

function refused(why: string): DiskError {
  return new DiskError(REFUSED, `rotating the keys of the state disk: ${why}`);
}
