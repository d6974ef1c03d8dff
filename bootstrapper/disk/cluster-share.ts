import type { Secret } from '../../internal/secret/index.ts';
import {
  isAheadOfCounter,
  isSameSource,
  isSealedShare,
  recordKey,
  slotKey,
  type DiskShares,
  type RecordContent,
  type ShareSource,
} from '../../internal/statedisk/index.ts';
import { diskCounter } from './disk-counter.ts';
import { randomSecret, sealShares, unsealShare } from './disk-seals.ts';
import { OPENS, type DiskPorts, type DiskSettings } from './disk-settings.ts';
import { checkHeader, commit, openDisk, requireReady, type OpenDisk, type Ready } from './disk-state.ts';

/** A slot of the LUKS header that exists only while the first one is replaced, in memory. */
const BESIDE = 2;

/** What a machine asks for at a start, or before it gives its share away. */
export interface ShareQuestion {
  /** UUID of the disk. */
  readonly uuid: string;
  readonly source: ShareSource;
}

/** Asks the signers of the cluster once for the share of a disk. Rejects if none gives it now. */
export type AskShare = (question: ShareQuestion, signal: AbortSignal) => Promise<Secret<Uint8Array>>;

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

/**
 * Gives the cluster share of an open disk to the signers: the disk gets a new first slot for a share that a signer derives, and its record
 * says where to ask instead of the sealed share. Does nothing else to a disk that has been given away already than to note a new source.
 * An interrupted call leaves a disk that opens as before, or as after it; it may be repeated.
 * @throws DiskError `disk-share-not-moved`: nothing was changed
 */
export async function giveShareToSigner(
  ports: DiskPorts,
  settings: DiskSettings,
  options: { readonly source: ShareSource; readonly askShare: AskShare; readonly signal: AbortSignal },
): Promise<'given' | 'updated' | 'unchanged'> {
  const { source, askShare, signal } = options;
  const disk = await openVerified(ports, settings, signal);
  const { content, node } = disk;
  const { uuid, clusterShare } = content;
  if (!isSealedShare(clusterShare)) {
    if (isSameSource(clusterShare, source)) return 'unchanged';
    await put(ports, disk, { ...content, clusterShare: source }, signal);
    return 'updated';
  }
  const before = await unsealShare(ports, settings, { which: 'cluster', content }, signal);
  const given = await askShare({ uuid, source }, signal);
  const header = await replaceSlot(disk, { from: { node, cluster: before }, to: { node, cluster: given } });
  await put(ports, disk, { ...content, clusterShare: source, header }, signal);
  ports.log.info('cluster share of the state disk given to the signers', { uuid });
  return 'given';
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
): Promise<'taken' | 'unchanged'> {
  const disk = await openVerified(ports, settings, signal);
  const { content, node } = disk;
  const { uuid, clusterShare: source } = content;
  if (isSealedShare(source)) return 'unchanged';
  const before = await askShare({ uuid, source }, signal);
  const shares = { node, cluster: randomSecret() };
  const header = await replaceSlot(disk, { from: { node, cluster: before }, to: shares });
  const seals = await sealShares(ports, settings, { shares, uuid, generation: 'current' }, signal);
  const next = { ...content, ...seals, approval: undefined, header };
  const sealed = await unsealShare(ports, settings, { which: 'cluster', content: next }, signal);
  if (Buffer.compare(sealed.reveal(), shares.cluster.reveal()) !== 0)
    throw new TypeError('the TPM has sealed another cluster share');
  await put(ports, disk, next, signal);
  if (content.approval !== undefined) ports.log.warn('approvals for the state disk have ended', { uuid });
  ports.log.info('cluster share of the state disk sealed to the TPM', { uuid });
  return 'taken';
}

/** A disk whose record the machine has verified, with the node share. */
interface VerifiedDisk extends OpenDisk {
  readonly state: Ready;
  readonly content: RecordContent;
  readonly node: Secret<Uint8Array>;
}

async function openVerified(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<VerifiedDisk> {
  const disk = await openDisk(ports, settings, signal);
  const state = requireReady(disk.state, 'disk-share-not-moved');
  const { content, sequence, verify } = state.record;
  const node = await unsealShare(ports, settings, { which: 'node', content }, signal);
  verify(recordKey(node, content.uuid));
  checkHeader(content);
  const counter = await ports.tpm.use(signal, (connection) => diskCounter.read(connection, signal));
  // An agent that was killed after it had written a record finds the disk open, and completes what it began.
  if (isAheadOfCounter(sequence, counter))
    await ports.tpm.use(signal, (connection) => diskCounter.increment(connection, signal));
  if (state.hasOther) await disk.slots.wipe(state.slot === 0 ? 1 : 0);
  return { ...disk, state, content, node };
}

/**
 * Replaces the first slot in a copy of the header in memory. The old shares must open it, so that a wrong answer of a signer changes nothing.
 * @returns the new header
 */
async function replaceSlot(
  { cryptsetup, content }: VerifiedDisk,
  { from, to }: { readonly from: DiskShares; readonly to: DiskShares },
): Promise<Uint8Array> {
  const { uuid, header } = content;
  const [old, key] = [slotKey(from, uuid), slotKey(to, uuid)];
  await cryptsetup.putHeader(header);
  try {
    await cryptsetup.addSlot(BESIDE, { key, opensWith: old });
    await cryptsetup.removeSlot(OPENS.shares, key);
    await cryptsetup.addSlot(OPENS.shares, { key, opensWith: key });
    await cryptsetup.removeSlot(BESIDE, key);
    await cryptsetup.check(OPENS.shares, key);
    return await cryptsetup.readHeader();
  } finally {
    await cryptsetup.clear();
  }
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
