import { childSignal } from '../../../internal/cleanup/index.ts';
import type { CodedError } from '../../../internal/errors/index.ts';
import { createTpm } from '../../attest/index.ts';
import {
  destroyStateDisk,
  isLockedDiskError,
  isShareError,
  openStateDisk,
  provisionedDisk,
  recoverStateDisk,
  type AskShare,
  type DiskError,
  type DiskPorts,
  type DiskSettings,
} from '../../disk/index.ts';
import type { ResetDisk } from '../../reset/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { openWithShare } from './await-disk-share.ts';
import { createClosedDiskService, openClosedMachine } from './closed-disk.ts';
import { askShareWhileClosed } from './create-ask-share.ts';
import { noteWait, withLockedFiles } from './locked-files.ts';

/** Formatting writes the whole disk, which takes longer than systemd waits for the agent. */
const EXTENSION_MS = 60_000;

/**
 * Opens the encrypted state disk that the provisioning names, if any, and mounts the directories of the node from it.
 * The agent does nothing else before: it never reads its files from, or writes them to, an unencrypted disk. If the TPM
 * does not release its shares of the disk's key, waits until an owner recovers the disk; if the cluster share is with the signers, asks
 * them until one gives it, or an owner recovers the disk.
 * @returns whether keys of the disk were in the memory of this process
 * @throws DiskError, StateDiskError, LuksError, TpmError, ExecError
 */
export async function openProvisionedDisk(ports: AgentPorts, options: AgentOptions): Promise<boolean> {
  const { provisioning, signal } = options;
  if (provisioning.stateDisk === undefined) return false;
  return withDisk(ports, provisioning, async (diskPorts, settings) => {
    const open = (): Promise<string> =>
      whileExtending(ports, options, () => openStateDisk(diskPorts, settings, signal));
    const outcome = await open().catch(async (error: unknown) => {
      const disk = { diskPorts, settings };
      const until = isLockedDiskError(error) ? untilRecovered : untilShared;
      if (!isLockedDiskError(error) && !isShareError(error)) throw error;
      await withLockedFiles(ports, () => until(ports, options, { ...disk, error }));
      await open();
      return until === untilRecovered ? 'recovered' : 'opened';
    });
    diskPorts.log.info('state disk ready', { device: settings.device, outcome });
    return outcome !== 'open';
  });
}

/** A disk that did not open at the first attempt. */
interface UnopenedDisk {
  readonly diskPorts: DiskPorts;
  readonly settings: DiskSettings;
  readonly error: DiskError;
}

/** Serves the init port and the console until an owner has recovered a disk whose shares the TPM does not release. */
async function untilRecovered(
  ports: AgentPorts,
  options: AgentOptions,
  { diskPorts, settings, error }: UnopenedDisk,
): Promise<void> {
  const { onReady, signal } = options;
  const { code, message, fix } = error;
  const machine = await openClosedMachine(ports, options, diskPorts);
  await onReady(`${code}: ${message}. Fix: ${fix}`);
  const disk = { diskPorts, settings, reason: () => error };
  const service = createClosedDiskService(ports, options, { disk, machine });
  await service.serve(
    (recoveryKey) => recoverStateDisk(diskPorts, settings, { recoveryKey, signal }),
    signal,
  );
}

/** Asks the signers for the cluster share of a disk whose node share the TPM has released, while owners can recover the disk. */
async function untilShared(
  ports: AgentPorts,
  options: AgentOptions,
  { diskPorts, settings, error: first }: UnopenedDisk,
): Promise<void> {
  const { onReady, onStatus, signal } = options;
  const machine = await openClosedMachine(ports, options, diskPorts);
  const askShare = askShareWhileClosed(ports, options, machine);
  let reason: CodedError = first;
  let isReady = false;
  const disk = { diskPorts, settings, reason: () => reason };
  const service = createClosedDiskService(ports, options, { disk, machine });
  await openWithShare(
    {
      ...{ ...ports, log: diskPorts.log },
      attempt: (alive) => {
        const open = (): Promise<string> =>
          openWithAnswer({ diskPorts, settings }, askShare, { alive, signal });
        return isReady ? open() : whileExtending(ports, options, open);
      },
      serve: (preempt, alive) =>
        service.serve(
          (recoveryKey) => preempt(() => recoverStateDisk(diskPorts, settings, { recoveryKey, signal })),
          alive,
        ),
      show: async (text, error) => {
        reason = error;
        await noteWait(ports.files, error);
        // systemd waits for the start of the agent; the machine may wait for days.
        await (isReady ? onStatus : onReady)(text);
        isReady = true;
        await service.show();
      },
    },
    signal,
  );
}

/**
 * Asks the signers for the cluster share, and opens the disk with it. `alive` ends the question and nothing after it: a recovery that comes while
 * the disk is mapped waits, because half of a mapping could be in the way of each later one.
 */
export function openWithAnswer(
  { diskPorts, settings }: Pick<UnopenedDisk, 'diskPorts' | 'settings'>,
  askShare: AskShare,
  { alive, signal }: { readonly alive: AbortSignal; readonly signal: AbortSignal },
): Promise<string> {
  return openStateDisk(diskPorts, settings, signal, (question) => askShare(question, alive));
}

/** The state disk, with the function with which a reset destroys it; undefined on a machine without a state disk. */
export function resetDiskOf(
  ports: AgentPorts,
  { provisioning, signal }: Pick<AgentOptions, 'provisioning' | 'signal'>,
): ResetDisk | undefined {
  if (provisioning.stateDisk === undefined) return undefined;
  const { directories } = provisionedDisk(provisioning.stateDisk);
  return {
    directories: directories.map(({ path }) => path),
    destroy: () =>
      withDisk(ports, provisioning, (diskPorts, settings) => destroyStateDisk(diskPorts, settings, signal)),
  };
}

/** Opens the TPM only while `use` runs, because the agent opens the TPM again later. */
async function withDisk<T>(
  ports: AgentPorts,
  { stateDisk, tpm: provisionedTpm }: AgentOptions['provisioning'],
  use: (ports: DiskPorts, settings: DiskSettings) => Promise<T>,
): Promise<T> {
  const tpm = createTpm(provisionedTpm, ports.clock);
  if (tpm === undefined || stateDisk === undefined)
    throw new TypeError('the provisioning must name both a state disk and a TPM');
  try {
    return await use({ ...ports, tpm, log: ports.log.child('disk') }, provisionedDisk(stateDisk));
  } finally {
    await tpm[Symbol.asyncDispose]();
  }
}

/** Extends systemd's start timeout repeatedly while `work` runs. */
async function whileExtending<T>(
  { clock }: Pick<AgentPorts, 'clock'>,
  { onSlowStart, signal }: Pick<AgentOptions, 'onSlowStart' | 'signal'>,
  work: () => Promise<T>,
): Promise<T> {
  using running = childSignal(signal);
  const extending = (async (): Promise<void> => {
    for (;;) {
      await onSlowStart('opening the state disk', 2 * EXTENSION_MS);
      await clock.sleep(EXTENSION_MS, running.signal);
    }
  })().catch(() => undefined); // The loop ends with `work`. If a notification fails, systemd's timeout applies.
  try {
    return await work();
  } finally {
    running.abort(new Error('the state disk is open'));
    await extending;
  }
}
