import { timingSafeEqual } from 'node:crypto';
import { ExecError } from '../../internal/exec/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  isAheadOfCounter,
  isSameSource,
  isSealedShare,
  provenSource,
  recordKey,
  slotKey,
  type DiskShares,
  type KnownSource,
  type RecordContent,
  type ShareSource,
} from '../../internal/statedisk/index.ts';
import { NO_KEY, replaceSlots } from './cryptsetup.ts';
import { diskCounter } from './disk-counter.ts';
import {
  endEarlierSeals,
  hasEarlierSeals,
  randomSecret,
  sealShares,
  testSeals,
  unsealShare,
} from './disk-seals.ts';
import { OPENS, type DiskPorts, type DiskSettings } from './disk-settings.ts';
import { DiskQueue } from './disk-queue.ts';
import { checkHeader, commit, openDisk, requireReady, type OpenDisk, type Ready } from './disk-state.ts';
import { DiskError, type DiskErrorCode } from './errors.ts';

/** What a machine asks for at a start, or before it gives its share away. */
export interface ShareQuestion {
  /** UUID of the disk. */
  readonly uuid: string;
  readonly source: ShareSource;
  /** Rejects a share that is not the one of this disk: then the next control plane is asked. */
  readonly test: (share: Secret<Uint8Array>, signal: AbortSignal) => Promise<void>;
  /** Whether only the endpoints of the source are asked, or also those that the machine has been provisioned with. */
  readonly among: 'source' | 'all';
  /** A control plane that is not asked, because its share is known. */
  readonly except?: string;
}

/** The share of a disk, and the control plane whose signer has given it, at this endpoint. */
export interface GivenShare {
  readonly share: Secret<Uint8Array>;
  readonly nodeId: string;
  readonly endpoint: string;
}

/** Asks the signers of the cluster once for the share of a disk, one control plane after the other. Rejects if none gives it now. */
export type AskShare = (question: ShareQuestion, signal: AbortSignal) => Promise<GivenShare>;

/** Asks like `AskShare`, and takes no share: resolves if a signer gives one. */
export type ProbeShare = (question: Omit<ShareQuestion, 'test'>, signal: AbortSignal) => Promise<void>;

/** Where the cluster share of the disk is. */
export type ShareKeeper =
  { readonly kind: 'machine' } | { readonly kind: 'signer'; readonly source: ShareSource };

/** Reads where the cluster share is, from a record whose MAC is not verified. Changes nothing. */
export async function readShareKeeper(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<ShareKeeper> {
  const { state } = await openDisk(ports, settings, signal);
  const { clusterShare } = requireReady(state, 'disk-share-not-moved').record.content;
  return isSealedShare(clusterShare) ? { kind: 'machine' } : { kind: 'signer', source: clusterShare };
}

/** What was done to the cluster share of a disk, or that an interrupted move of it was completed. */
export type ShareMove = 'given' | 'taken' | 'updated' | 'completed' | 'unchanged';

/** Whether keys of the disk are in the memory of this process after a move, for which an agent ends. A new source happens again and again. */
export function isKeyMove(move: ShareMove): boolean {
  return move !== 'unchanged' && move !== 'updated';
}

/**
 * Gives the cluster share of an open disk to the signers: the disk gets a new first slot for a share that a signer derives, and its record
 * says where to ask instead of the sealed share. Does nothing else to a disk that has been given away already than to note a new source.
 * An interrupted call leaves a disk that opens as before, or as after it; it may be repeated, and then completes that first. Reads no share from the
 * TPM as long as there is nothing to do, or no signer takes the share.
 * @throws DiskError `disk-share-not-moved`: nothing was changed
 */
export async function giveShareToSigner(
  ports: DiskPorts,
  settings: DiskSettings,
  options: { readonly source: KnownSource; readonly askShare: AskShare; readonly signal: AbortSignal },
): Promise<ShareMove> {
  const { source: known, askShare, signal } = options;
  const source = provenSource(known, { now: [], before: [] });
  const found = await findDisk(ports, settings, signal);
  if (isInterrupted(found)) return completeMove(ports, found, signal);
  const { content } = found;
  const { uuid, clusterShare } = content;
  if (!isSealedShare(clusterShare)) {
    if (isSameSource(clusterShare, source)) return 'unchanged';
    const disk = await verified(ports, found, signal);
    const { node } = disk;
    // A curator names the new endpoints: they count once one of them has given the share.
    const { endpoint } = await askTested({ disk, node, source, among: 'source' }, askShare, signal);
    const next = provenSource(known, { now: [endpoint], before: clusterShare.proven });
    await put(ports, disk, { ...content, clusterShare: next }, signal);
    return 'updated';
  }
  const given = await askForMove({ uuid, source, among: 'all' }, askShare, signal);
  const disk = await verified(ports, found, signal);
  const { node } = disk;
  const before = await unsealShare(ports, settings, { which: 'cluster', content }, signal);
  const header = await replaceSlot(disk, {
    from: { node, cluster: before },
    to: { node, cluster: given.share },
  });
  const proven = provenSource(known, { now: given.endpoints, before: [] });
  await put(ports, disk, { ...content, clusterShare: proven, header }, signal);
  ports.log.info('cluster share of the state disk given to the signers', { uuid });
  return 'given';
}

/**
 * The share that the disk gets. There is no slot yet that could prove it: if the cluster has a second control plane, its signer must give the
 * same one, so that no control plane with a secret of its own closes the disk.
 */
async function askForMove(
  question: Pick<ShareQuestion, 'uuid' | 'source' | 'among'>,
  askShare: AskShare,
  signal: AbortSignal,
): Promise<{ readonly share: Secret<Uint8Array>; readonly endpoints: readonly string[] }> {
  const first = await askShare({ ...question, test: () => Promise.resolve() }, signal);
  const { controlPlanes } = question.source;
  const { share } = first;
  if (controlPlanes.every(({ nodeId }) => nodeId === first.nodeId))
    return { share, endpoints: [first.endpoint] };
  const test = (other: Secret<Uint8Array>): Promise<void> => {
    if (timingSafeEqual(other.reveal(), share.reveal())) return Promise.resolve();
    const what = `comparing the share with that of ${first.nodeId}: another one`;
    return Promise.reject(new DiskError('disk-share-wrong', what));
  };
  const second = await askShare({ ...question, test, except: first.nodeId }, signal);
  return { share, endpoints: [first.endpoint, second.endpoint] };
}

/**
 * Takes the cluster share of an open disk back: the disk gets a new first slot for a new random share, which is sealed to the TPM. Asks a signer
 * for the present share. Does nothing to a disk whose machine keeps its share. May be repeated, as above. Approvals of other registers end,
 * because they do not name the new seal.
 * @throws DiskError `disk-share-not-moved`: nothing was changed
 */
export async function takeShareBack(
  ports: DiskPorts,
  settings: DiskSettings,
  { askShare, signal }: { readonly askShare: AskShare; readonly signal: AbortSignal },
): Promise<ShareMove> {
  const found = await findDisk(ports, settings, signal);
  const { content } = found;
  const { uuid, clusterShare: source } = content;
  if (isSealedShare(source)) return isInterrupted(found) ? completeMove(ports, found, signal) : 'unchanged';
  const disk = await verified(ports, found, signal);
  const { node } = disk;
  const { share: before } = await askTested({ disk, node, source, among: 'all' }, askShare, signal);
  const shares = { node, cluster: randomSecret() };
  const header = await replaceSlot(disk, { from: { node, cluster: before }, to: shares });
  const seals = await sealShares(ports, settings, { shares, uuid, generation: 'current' }, signal);
  const next = { ...content, ...seals, approval: undefined, header };
  await testSeals(ports, settings, { content: next, shares }, signal);
  await put(ports, disk, next, signal);
  if (content.approval !== undefined) ports.log.warn('approvals for the state disk have ended', { uuid });
  ports.log.info('cluster share of the state disk sealed to the TPM', { uuid });
  return 'taken';
}

/** Asks for the share of a disk whose first slot proves it. @throws DiskError of a missing share */
export async function askTested(
  of: {
    readonly disk: OpenDisk & { readonly state: Ready };
    readonly node: Secret<Uint8Array>;
    readonly source: ShareSource;
    readonly among: ShareQuestion['among'];
  },
  askShare: AskShare,
  signal: AbortSignal,
): Promise<GivenShare> {
  const { disk, node, source, among } = of;
  const { uuid, header } = disk.state.record.content;
  // Several control planes may answer at the same time, but there is one file for the header.
  const queue = new DiskQueue();
  const test = (cluster: Secret<Uint8Array>, alive: AbortSignal): Promise<void> =>
    queue.run(async () => {
      alive.throwIfAborted();
      await disk.cryptsetup.putHeader(header);
      try {
        await disk.cryptsetup.check(OPENS.shares, slotKey({ node, cluster }, uuid));
      } catch (cause) {
        if (!(cause instanceof ExecError && cause.exitCode === NO_KEY)) throw cause;
        throw new DiskError('disk-share-wrong', 'opening the state disk with the share of a signer', {
          cause,
        });
      } finally {
        await disk.cryptsetup.clear();
      }
    });
  try {
    return await askShare({ uuid, source, among, test }, signal);
  } finally {
    await queue.run(() => Promise.resolve());
  }
}

/** A disk as it was read; nothing has proved its record. */
interface FoundDisk extends OpenDisk {
  readonly state: Ready;
  readonly content: RecordContent;
  /** Whether the counter of the TPM is one behind the record. */
  readonly isAhead: boolean;
}

/** A disk whose record the machine has verified, with the node share. */
interface VerifiedDisk extends FoundDisk {
  readonly node: Secret<Uint8Array>;
}

/** Reads the record of an open disk, and the counter of the TPM. @throws DiskError with this code if the disk is not formatted */
export async function findDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
  code: DiskErrorCode = 'disk-share-not-moved',
): Promise<FoundDisk> {
  const disk = await openDisk(ports, settings, signal);
  const state = requireReady(disk.state, code);
  const { content, sequence } = state.record;
  const counter = await ports.tpm.use(signal, (connection) => diskCounter.read(connection, signal));
  return { ...disk, state, content, isAhead: isAheadOfCounter(sequence, counter) };
}

/** Whether an agent was killed after it had written a record: the next one finds the disk open. */
function isInterrupted({ isAhead, state }: FoundDisk): boolean {
  return isAhead || state.hasOther;
}

async function completeMove(ports: DiskPorts, found: FoundDisk, signal: AbortSignal): Promise<'completed'> {
  await verified(ports, found, signal);
  return 'completed';
}

/** Completes what an agent that was killed had begun with an open disk. Reads no share from the TPM if there is nothing. @returns whether there was something */
export async function completeInterrupted(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<boolean> {
  const found = await findDisk(ports, settings, signal);
  if (!isInterrupted(found) && !(await hasEarlierSeals(ports, settings, found.content, signal))) return false;
  await verified(ports, found, signal);
  return true;
}

/** Verifies the record, and completes what an agent that was killed had begun. */
export async function verified(
  ports: DiskPorts,
  found: FoundDisk,
  signal: AbortSignal,
): Promise<VerifiedDisk> {
  const { settings, state, slots, content, isAhead } = found;
  const node = await unsealShare(ports, settings, { which: 'node', content }, signal);
  state.record.verify(recordKey(node, content.uuid));
  checkHeader(content);
  if (isAhead) await ports.tpm.use(signal, (connection) => diskCounter.increment(connection, signal));
  if (state.hasOther) await slots.wipe(state.slot === 0 ? 1 : 0);
  await endEarlierSeals(ports, settings, content, signal);
  return { ...found, node };
}

function replaceSlot(
  { cryptsetup, content }: VerifiedDisk,
  { from, to }: { readonly from: DiskShares; readonly to: DiskShares },
): Promise<Uint8Array> {
  const { uuid, header } = content;
  return replaceSlots(cryptsetup, header, { from: slotKey(from, uuid), to: slotKey(to, uuid) });
}

async function put(
  ports: DiskPorts,
  { slots, state, node }: VerifiedDisk,
  content: RecordContent,
  signal: AbortSignal,
): Promise<void> {
  const slot = state.slot === 0 ? 1 : 0;
  await commit(ports, { slots, slot, content, key: recordKey(node, content.uuid) }, signal);
}
