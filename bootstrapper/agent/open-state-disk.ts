import { childSignal } from '../../internal/cleanup/index.ts';
import { createTpm } from '../attest/index.ts';
import {
  destroyStateDisk,
  openStateDisk,
  provisionedDisk,
  type DiskPorts,
  type DiskSettings,
} from '../disk/index.ts';
import type { ResetDisk } from '../reset/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';

/** Formatting writes the whole disk, which takes longer than systemd waits for the agent. */
const EXTENSION_MS = 60_000;

/**
 * Opens the state disk of the provisioning, if there is one, and mounts the directories of the node from it. Nothing else of the
 * agent runs before: none of its files is read from, or written to, a disk in the clear.
 * @throws DiskError, StateDiskError, LuksError, TpmError, ExecError
 */
export async function openProvisionedDisk(
  ports: AgentPorts,
  options: Pick<AgentOptions, 'provisioning' | 'onSlowStart' | 'signal'>,
): Promise<void> {
  const { provisioning, signal } = options;
  if (provisioning.stateDisk === undefined) return;
  await withDisk(ports, provisioning, async (diskPorts, settings) => {
    const outcome = await whileExtending(ports, options, () => openStateDisk(diskPorts, settings, signal));
    diskPorts.log.info('state disk ready', { device: settings.device, outcome });
  });
}

/** The state disk as a reset of the machine destroys it; undefined on a machine without one. */
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

/** The TPM is closed again: the agent opens it for itself later. */
async function withDisk(
  ports: AgentPorts,
  { stateDisk, tpm: provisionedTpm }: AgentOptions['provisioning'],
  use: (ports: DiskPorts, settings: DiskSettings) => Promise<void>,
): Promise<void> {
  const tpm = createTpm(provisionedTpm, ports.clock);
  if (tpm === undefined || stateDisk === undefined)
    throw new TypeError('the provisioning has a state disk and no TPM, or none of both');
  try {
    await use({ ...ports, tpm, log: ports.log.child('disk') }, provisionedDisk(stateDisk));
  } finally {
    await tpm[Symbol.asyncDispose]();
  }
}

/** Tells systemd again and again that the work goes on. */
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
  })().catch(() => undefined); // ends with the work; systemd then decides about the time
  try {
    return await work();
  } finally {
    running.abort(new Error('the state disk is open'));
    await extending;
  }
}
