import { randomUUID } from 'node:crypto';
import { findCoded } from '../../internal/errors/index.ts';
import { ExecError } from '../../internal/exec/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  isAheadOfCounter,
  isSealedShare,
  ownersNeeded,
  recordKey,
  slotKey,
  StateDiskError,
  type ConsoleRecovery,
  type OwnerRecovery,
  type RecordContent,
} from '../../internal/statedisk/index.ts';
import { lastValueOfSeal } from '../../internal/tpm/index.ts';
import { askTested, completeInterrupted, type AskShare } from './cluster-share.ts';
import { NO_KEY } from './cryptsetup.ts';
import { diskCounter, keyCounter } from './disk-counter.ts';
import {
  createShares,
  endEarlierSeals,
  randomSecret,
  readSealedRegisters,
  sealShares,
  unsealShare,
  type SealedRegister,
} from './disk-seals.ts';
import { OPENS, type DiskPorts, type DiskSettings } from './disk-settings.ts';
import { checkHeader, commit, openDisk, requireReady, type OpenDisk, type Ready } from './disk-state.ts';
import { DiskError, isLockedDiskError } from './errors.ts';
import { createFileSystem, mappingOf, mountDisk, refuseUsedDirectories, unmountDisk } from './mount-disk.ts';
import { createOwnerParts, renewOwnerParts } from './owner-parts.ts';
import { sealForApprovals } from './seal-for-approvals.ts';

/**
 * Opens the state disk and mounts its directories. First formats the disk if it is empty or if an earlier formatting
 * was interrupted. After an interruption, the next call continues; a disk that was ready once is never formatted. Does
 * nothing if the disk is open and mounted, unless an agent was killed while it gave the disk new keys.
 * @param askShare asks for the cluster share of a machine that does not keep it, once its record and header are verified
 * @returns what was done
 * @throws DiskError, StateDiskError, LuksError, TpmError: nothing was written to the disk
 */
export async function openStateDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
  askShare: AskShare = refuseToAsk,
): Promise<'formatted' | 'opened' | 'completed' | 'open'> {
  await refuseUsedDirectories(ports, settings);
  const disk = await openDisk(ports, settings, signal);
  const { state, cryptsetup, slots } = disk;
  const wasMapped = await isMapped(ports, settings);
  if (state.kind === 'ready') {
    if (!wasMapped) await unlock(ports, { ...disk, state }, { askShare, signal });
  } else {
    if (wasMapped) {
      await unmountDisk(ports, settings, signal);
      await cryptsetup.close();
    }
    if (state.kind === 'blank') await refuseLostDisk(ports, settings, signal);
    await format(ports, { settings, cryptsetup, slots }, signal);
  }
  await mountDisk(ports, settings, signal);
  if (state.kind !== 'ready') return 'formatted';
  if (!wasMapped) return 'opened';
  return (await completeOpen(ports, disk, signal)) ? 'completed' : 'open';
}

/** The disk is open and in use, so that a failure is no reason to stop: the next start, or the next change of its record, completes it. */
async function completeOpen(
  ports: DiskPorts,
  { settings, cryptsetup }: OpenDisk,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    // A key that a killed agent has left in a file in memory.
    await cryptsetup.clear();
    return await completeInterrupted(ports, settings, signal);
  } catch (error) {
    signal.throwIfAborted();
    ports.log.warn('interrupted change of the keys of the state disk not completed', { error });
    return false;
  }
}

/**
 * The data with which an owner recovers a disk. It comes from the record on the disk, which is authenticated only when
 * the disk opens.
 */
export interface LockedDisk {
  readonly uuid: string;
  readonly recovery: OwnerRecovery;
  /** The same for the console; undefined on a disk of an earlier release, and after a recovery with other recipients. */
  readonly consoleRecovery: ConsoleRecovery | undefined;
  readonly registers: readonly SealedRegister[];
}

/**
 * Reads the data with which an owner recovers the disk. Changes nothing.
 * @throws DiskError `disk-recovery-refused`
 */
export async function readLockedDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<LockedDisk> {
  const { state } = await openDisk(ports, settings, signal);
  const { content } = requireReady(state, 'disk-recovery-refused').record;
  const { uuid, recovery, consoleRecovery } = content;
  return {
    ...{ uuid, recovery, consoleRecovery },
    registers: await readSealedRegisters(ports, settings, content, signal),
  };
}

/**
 * Opens the state disk with the recovery key of its owner, and gives it new shares, sealed to the TPM and registers that the machine
 * has now. The old shares and their slot are destroyed.
 * @throws DiskError `disk-recovery-refused`: nothing was changed
 */
export async function recoverStateDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  options: { readonly recoveryKey: Secret<Uint8Array>; readonly signal: AbortSignal },
): Promise<void> {
  const { recoveryKey, signal } = options;
  await refuseUsedDirectories(ports, settings);
  const disk = await openDisk(ports, settings, signal);
  const { state, cryptsetup, slots } = disk;
  const ready = requireReady(state, 'disk-recovery-refused');
  const { content } = ready.record;
  checkHeader(content);
  await cryptsetup.putHeader(content.header);
  try {
    await cryptsetup.check(OPENS.recovery, recoveryKey).catch((cause: unknown) => {
      if (!(cause instanceof ExecError && cause.exitCode === NO_KEY)) throw cause;
      throw new DiskError('disk-recovery-refused', 'opening the state disk with the recovery key', { cause });
    });
    const shares = createShares();
    const { uuid } = content;
    await cryptsetup.removeSlot(OPENS.shares, recoveryKey);
    await cryptsetup.addSlot(OPENS.shares, { key: slotKey(shares, uuid), opensWith: recoveryKey });
    await startCounters(ports, signal);
    // Approvals for the software before the recovery end with the increment of their counter.
    const seals = await sealShares(ports, settings, { shares, uuid, generation: 'next' }, signal);
    const header = await cryptsetup.readHeader();
    const parts = await renewOwnerParts(content, { recoveryKey, settings, log: ports.log });
    const next = { uuid, ...parts, ...seals, approval: undefined, header };
    const slot = ready.slot === 0 ? 1 : 0;
    await commit(ports, { slots, slot, content: next, key: recordKey(shares.node, uuid) }, signal);
    await endEarlierSeals(ports, settings, next, signal);
    // The disk is opened last. So an agent that is killed earlier finds the disk closed at its next start, and opens or
    // recovers it.
    if (!(await isMapped(ports, settings))) await cryptsetup.open(OPENS.recovery, recoveryKey);
  } finally {
    await cryptsetup.clear();
  }
  await mountDisk(ports, settings, signal);
}

async function isMapped({ files }: DiskPorts, settings: DiskSettings): Promise<boolean> {
  return (await files.stat(mappingOf(settings))) !== undefined;
}

/** Verifies the record, then the header in it, and opens the disk with exactly this header. */
async function unlock(
  ports: DiskPorts,
  disk: OpenDisk & { readonly state: Ready },
  { askShare, signal }: { readonly askShare: AskShare; readonly signal: AbortSignal },
): Promise<void> {
  const { settings, state, slots, cryptsetup } = disk;
  const { content, sequence, verify } = state.record;
  const node = await unsealShare(ports, settings, { which: 'node', content }, signal).catch(
    async (error: unknown) => {
      await refuseEndedSeal(ports, { error, record: state.record }, signal);
      throw error;
    },
  );
  verify(recordKey(node, content.uuid));
  checkHeader(content);
  warnOfThreshold(ports, settings, content);
  const counter = await ports.tpm.use(signal, (connection) => diskCounter.read(connection, signal));
  const isAhead = isAheadOfCounter(sequence, counter);
  const { uuid, clusterShare: source } = content;
  const cluster = isSealedShare(source)
    ? await unsealShare(ports, settings, { which: 'cluster', content }, signal)
    : (await askTested({ disk, node, source, among: 'all' }, askShare, signal)).share;
  const key = slotKey({ node, cluster }, uuid);
  if (isAhead) await ports.tpm.use(signal, (connection) => diskCounter.increment(connection, signal));
  if (state.hasOther) await slots.wipe(state.slot === 0 ? 1 : 0);
  await endEarlierSeals(ports, settings, content, signal);
  await cryptsetup.putHeader(content.header);
  try {
    await cryptsetup.open(OPENS.shares, key);
  } finally {
    await cryptsetup.clear();
  }
  await sealForApprovals(ports, disk, { node, cluster }, signal);
}

/**
 * An earlier copy of a disk that has new keys: this TPM has ended its seals. Nothing proves the sequence of such a record, but an owner should not be asked to
 * recover it. @throws StateDiskError `statedisk-rolled-back`
 */
async function refuseEndedSeal(
  { tpm }: DiskPorts,
  { error, record }: { readonly error: unknown; readonly record: Ready['record'] },
  signal: AbortSignal,
): Promise<void> {
  if (!isLockedDiskError(error) || findCoded(error.cause)?.code !== 'tpm-policy-failed') return;
  const last = lastValueOfSeal(record.content.nodeShare);
  const [counter, key] = await tpm.use(signal, async (connection) => [
    await diskCounter.read(connection, signal),
    await keyCounter.read(connection, signal),
  ]);
  const isEnded = last !== undefined && key !== undefined && last < key;
  if (isEnded && counter !== undefined && record.sequence < counter)
    isAheadOfCounter(record.sequence, counter);
}

/** The provisioning file may name another threshold than it did at the formatting, which counts. */
function warnOfThreshold(
  { log }: DiskPorts,
  { recoveryThreshold: provisioned }: DiskSettings,
  { recovery }: RecordContent,
): void {
  const disk = ownersNeeded(recovery);
  if (disk !== provisioned)
    log.warn('the state disk keeps the recovery threshold of its formatting', { disk, provisioned });
}

function refuseToAsk(): Promise<never> {
  return Promise.reject(
    new DiskError('disk-share-awaited', 'opening the state disk: its cluster share is with the signers'),
  );
}

/** Before anything is written: a TPM without room for a counter, or with a password, refuses. */
async function startCounters({ tpm }: DiskPorts, signal: AbortSignal): Promise<void> {
  await tpm.use(signal, async (connection) => {
    for (const counter of [diskCounter, keyCounter]) await counter.start(connection, signal);
  });
}

/** Formats a disk that was never ready. */
async function format(
  ports: DiskPorts,
  { settings, slots, cryptsetup }: Omit<OpenDisk, 'state'>,
  signal: AbortSignal,
): Promise<void> {
  const [uuid, shares, recoveryKey] = [randomUUID(), createShares(), randomSecret()];
  await slots.writeFormatting();
  await startCounters(ports, signal);
  await cryptsetup.putHeader();
  try {
    const key = slotKey(shares, uuid);
    await cryptsetup.format(uuid, key);
    await cryptsetup.addSlot(OPENS.recovery, { key: recoveryKey, opensWith: key });
    const header = await cryptsetup.readHeader();
    const parts = await createOwnerParts(recoveryKey, { uuid, settings });
    const seals = await sealShares(ports, settings, { shares, uuid, generation: 'current' }, signal);
    const content = { uuid, ...parts, ...seals, approval: undefined, header };
    checkHeader(content);
    await cryptsetup.open(OPENS.shares, key);
    await createFileSystem(ports, settings, signal);
    await commit(ports, { slots, slot: 1, content, key: recordKey(shares.node, uuid) }, signal);
  } finally {
    await cryptsetup.clear();
  }
  await ports.files.remove(settings.permit);
}

async function refuseLostDisk(
  ports: DiskPorts,
  { permit }: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  const counter = await ports.tpm.use(signal, (connection) => diskCounter.read(connection, signal));
  if (counter === undefined || (await ports.files.stat(permit)) !== undefined) return;
  throw new StateDiskError('statedisk-lost', `formatting the state disk: the TPM remembers disk ${counter}`);
}
