import { parseRecipient } from '../../internal/backup/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import { createConsoleChallenge, ownersNeeded } from '../../internal/statedisk/index.ts';
import { createMachineEvidence, createTpm } from '../attest/index.ts';
import {
  destroyStateDisk,
  isLockedDiskError,
  openStateDisk,
  provisionedDisk,
  readLockedDisk,
  recoverStateDisk,
  type DiskPorts,
  type DiskSettings,
} from '../disk/index.ts';
import {
  challengeLines,
  failureText,
  findCodeSources,
  openConsole,
  printOnConsole,
  serveLockedDisk,
  type ConsoleEntry,
} from '../machineservice/index.ts';
import { loadMachineIdentity } from '../nodestate/index.ts';
import type { ResetDisk } from '../reset/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { LOCKED_PATHS, withLockedFiles } from './locked-files.ts';
import { ownerKeysOf } from './open-machine.ts';

/** Formatting writes the whole disk, which takes longer than systemd waits for the agent. */
const EXTENSION_MS = 60_000;

/**
 * Opens the encrypted state disk that the provisioning names, if any, and mounts the directories of the node from it.
 * The agent does nothing else before: it never reads its files from, or writes them to, an unencrypted disk. If the TPM
 * does not release its shares of the disk's key, waits until an owner recovers the disk.
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
      if (!isLockedDiskError(error)) throw error;
      const disk = { diskPorts, settings, reason: error };
      await withLockedFiles(ports, () => untilRecovered(ports, options, disk));
      await open();
      return 'recovered';
    });
    diskPorts.log.info('state disk ready', { device: settings.device, outcome });
    return outcome !== 'open';
  });
}

/** A state disk that the TPM does not release. */
interface ClosedDisk {
  readonly diskPorts: DiskPorts;
  readonly settings: DiskSettings;
  readonly reason: CodedError;
}

/**
 * Serves the init port and the console until an owner has recovered the disk. The machine key is created for this time, because the
 * permanent key is on the locked disk.
 */
async function untilRecovered(
  ports: AgentPorts,
  { provisioning, agentVersion, onReady, signal }: AgentOptions,
  disk: ClosedDisk,
): Promise<void> {
  const { files, clock, machine, log } = ports;
  const { diskPorts, settings, reason } = disk;
  const { device } = settings;
  const identity = await loadMachineIdentity(files, LOCKED_PATHS);
  const evidence = createMachineEvidence({
    ...{ ...ports, provisioning, tpm: diskPorts.tpm, machineKeyPem: identity.keyPem },
    keySecretPath: LOCKED_PATHS.keySecret,
    // The state of the node lock is on the locked disk and unknown, so the lock register (a PCR) keeps its value of the
    // boot.
    mirrorLock: () => Promise.resolve(),
  });
  const { code, message, fix } = reason;
  const { fingerprint } = identity;
  await onReady(`${code}: ${message}. Fix: ${fix}`);
  const consolePorts = {
    ...{ clock, log: diskPorts.log },
    find: (alive: AbortSignal) => findConsoleEntry(ports, disk, alive),
    print: (more: readonly string[], alive: AbortSignal) =>
      printOnConsole(ports, failureText(reason, fingerprint, more), { log, signal: alive }),
  };
  await serveLockedDisk(
    {
      ...{ clock, machine, evidence, agentVersion, fingerprint, device, reason },
      ownerKeys: ownerKeysOf(provisioning),
      log: diskPorts.log,
      openConsole: (alive) => openConsole(consolePorts, alive),
      read: (alive) => readLockedDisk(diskPorts, settings, alive),
      recover: (recoveryKey) => recoverStateDisk(diskPorts, settings, { recoveryKey, signal }),
    },
    signal,
  );
}

/** The way in at the console; undefined if the record of the disk has no data for it. */
async function findConsoleEntry(
  ports: AgentPorts,
  { diskPorts, settings, reason }: ClosedDisk,
  signal: AbortSignal,
): Promise<ConsoleEntry | undefined> {
  const locked = await readLockedDisk(diskPorts, settings, signal);
  const { uuid, consoleRecovery: recovery } = locked;
  if (recovery === undefined) return undefined;
  const recipients = settings.recipients.map(parseRecipient);
  const challenge = createConsoleChallenge({ uuid, recovery, recipients });
  const sources = await findCodeSources(ports, LOCKED_PATHS.code, signal);
  const pipe = sources.areConsoles ? undefined : LOCKED_PATHS.code;
  const owners = ownersNeeded(locked.recovery);
  const lines = challengeLines(reason, { challenge: challenge.text, pipe, owners });
  return { commands: ports.commands, sources, challenge, lines };
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
