import {
  approvalCounter,
  isAheadOfCounter,
  isSealedShare,
  parseApproval,
  recordKey,
  type RecordContent,
  type VerifiedApproval,
} from '../../internal/statedisk/index.ts';
import { isApprovableBy, nameOfSeal, readPcrs } from '../../internal/tpm/index.ts';
import { diskCounter } from './disk-counter.ts';
import { approvalOf, authorityOf, endEarlierSeals, testApprovalOf, unsealShare } from './disk-seals.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { checkHeader, commit, openDisk, requireReady } from './disk-state.ts';
import { digestOfSeal } from './rotate-keys.ts';
import { DiskError, isLockedDiskError } from './errors.ts';

const REFUSED = 'disk-approval-refused';

/** How the state disk is sealed, as an owner needs it for an approval. */
export interface DiskSeal {
  readonly uuid: string;
  /** Names of the sealed shares; undefined if nobody can approve other registers. */
  readonly seals: readonly [Uint8Array, ...Uint8Array[]] | undefined;
  /** The value of the counter of approvals; the next approval is for the value after it. */
  readonly generation: bigint;
  /** The registers to which the disk is sealed, with their values now. */
  readonly registers: ReadonlyMap<number, Uint8Array>;
  /** For each software that an owner has approved: its registers. */
  readonly approved: readonly ReadonlyMap<number, Uint8Array>[];
  /** SHA-256 of the sealed node share, which a rotation replaces. */
  readonly nodeSeal: Uint8Array;
  readonly keepsClusterShare: boolean;
  /** Whether the TPM releases the shares now, and so at the next start of the same software. */
  readonly opens: boolean;
}

/** Reads how the disk is sealed. Changes nothing. @throws DiskError `disk-approval-refused` */
export async function readDiskSeal(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<DiskSeal> {
  const { state } = await openDisk(ports, settings, signal);
  const { content } = requireReady(state, REFUSED).record;
  const opens = await unsealShare(ports, settings, { which: 'node', content }, signal).then(
    () => true,
    (error: unknown) => {
      if (isLockedDiskError(error)) return false;
      throw error;
    },
  );
  return {
    uuid: content.uuid,
    seals: sealsOf(settings, content),
    opens,
    nodeSeal: digestOfSeal(content.nodeShare),
    keepsClusterShare: isSealedShare(content.clusterShare),
    approved: approvalOf(settings, content)?.software ?? [],
    ...(await ports.tpm.use(signal, async (connection) => ({
      generation: (await approvalCounter.read(connection, signal)) ?? 0n,
      registers: await readPcrs(connection, { hash: 'sha256', pcrs: settings.pcrs }, signal),
    }))),
  };
}

/**
 * Takes an approval of an owner: from then on the disk opens with the registers that it names, and with no others. The TPM tests the
 * approval first: it unseals the shares that the machine keeps through it with the registers that the machine has now, and computes for the other ones the
 * policy that a session will have. Then the approval goes into a new record, and the counter ends all earlier approvals. May be repeated.
 * @throws DiskError `disk-approval-refused`, StateDiskError `statedisk-approval-invalid`: nothing was changed
 */
export async function approveSoftware(
  ports: DiskPorts,
  settings: DiskSettings,
  { approval: bytes, signal }: { readonly approval: Uint8Array; readonly signal: AbortSignal },
): Promise<void> {
  const { approvalKey } = settings;
  if (approvalKey === undefined) throw refused('the provisioning of this machine has no approval key');
  const approval = parseApproval(bytes, approvalKey);
  const { state, slots } = await openDisk(ports, settings, signal);
  const ready = requireReady(state, REFUSED);
  const { content, verify, sequence } = ready.record;
  refuseForeign(approval, settings, content);
  if (content.approval !== undefined && Buffer.compare(content.approval, bytes) === 0)
    return endEarlierSeals(ports, settings, content, signal);
  const now = await ports.tpm.use(signal, async (connection) => ({
    generation: (await approvalCounter.read(connection, signal)) ?? 0n,
    sequence: await diskCounter.read(connection, signal),
    registers: await readPcrs(connection, { hash: 'sha256', pcrs: settings.pcrs }, signal),
  }));
  if (approval.generation !== now.generation + 1n)
    throw refused(`it is for generation ${approval.generation}, and ${now.generation + 1n} is next`);
  if (!approval.software.some((each) => isSame(each, now.registers)))
    throw refused('the registers that the machine has now are not in it');
  const next = { ...content, approval: bytes, registers: now.registers };
  await testApprovalOf(ports, settings, next, signal);
  const key = recordKey(
    await unsealShare(ports, settings, { which: 'node', content: next }, signal),
    content.uuid,
  );
  verify(key);
  checkHeader(content);
  if (isAheadOfCounter(sequence, now.sequence)) throw refused('the machine has not started since a crash');
  // A worker without its cluster share has only the node share to test.
  if (isSealedShare(content.clusterShare))
    await unsealShare(ports, settings, { which: 'cluster', content: next }, signal);
  await commit(ports, { slots, slot: ready.slot === 0 ? 1 : 0, content: next, key }, signal);
  await endEarlierSeals(ports, settings, next, signal);
  ports.log.warn('an owner has approved registers for the state disk', {
    ...{ generation: `${approval.generation}`, software: approval.software.length },
  });
}

function sealsOf(settings: DiskSettings, content: RecordContent): DiskSeal['seals'] {
  const authority = authorityOf(settings, content);
  const { nodeShare, clusterShare } = content;
  return authority !== undefined && isApprovableBy(nodeShare, authority)
    ? [nameOfSeal(nodeShare), ...(isSealedShare(clusterShare) ? [nameOfSeal(clusterShare)] : [])]
    : undefined;
}

/** Refuses an approval for another disk, for other seals, or of other registers than this disk is sealed to. */
function refuseForeign(approval: VerifiedApproval, settings: DiskSettings, content: RecordContent): void {
  if (approval.uuid !== content.uuid) throw refused(`it is for disk ${approval.uuid}`);
  const seals = sealsOf(settings, content);
  const areSame =
    seals?.length === approval.seals.length && seals.every((name, at) => isEqual(name, approval.seals[at]));
  if (!areSame) throw refused('it is for other sealed shares');
  const names = [...approval.software[0].keys()].sort((a, b) => a - b);
  if (names.join() !== [...settings.pcrs].sort((a, b) => a - b).join())
    throw refused(`it names PCRs ${names.join(', ')}, and the disk is sealed to ${settings.pcrs.join(', ')}`);
}

function isSame(one: ReadonlyMap<number, Uint8Array>, other: ReadonlyMap<number, Uint8Array>): boolean {
  return one.size === other.size && [...one].every(([pcr, value]) => isEqual(value, other.get(pcr)));
}

function isEqual(one: Uint8Array, other: Uint8Array | undefined): boolean {
  return other !== undefined && Buffer.compare(one, other) === 0;
}

function refused(why: string): DiskError {
  return new DiskError(REFUSED, `taking an approval for the state disk: ${why}`);
}
