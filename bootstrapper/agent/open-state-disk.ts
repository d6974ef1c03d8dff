import { childSignal } from '../../internal/cleanup/index.ts';
import { createTpm } from '../attest/index.ts';
import { openStateDisk, provisionedDisk } from '../disk/index.ts';
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
  const tpm = createTpm(provisioning.tpm, ports.clock);
  if (tpm === undefined) throw new TypeError('the provisioning has a state disk, and no TPM');
  const log = ports.log.child('disk');
  const settings = provisionedDisk(provisioning.stateDisk);
  try {
    const outcome = await whileExtending(ports, options, () =>
      openStateDisk({ ...ports, tpm, log }, settings, signal),
    );
    log.info('state disk ready', { device: settings.device, outcome });
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
