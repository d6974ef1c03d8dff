import type { CommandRunner } from '../../internal/exec/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import { NodeStreamError } from './errors.ts';

/** Time limit of the systemctl call. systemd only queues the job, so it answers at once. */
const QUEUE_MS = 10_000;
const VERBS = { reboot: 'reboot', off: 'poweroff' } as const;

/** An operator's order to restart this machine, or to switch it off. */
export interface PowerOrder {
  readonly action: keyof typeof VERBS;
  /** The boot that the operator saw: an order that is sent again after the restart does nothing. */
  readonly bootId: string;
}

/** Ports (injected dependencies) of `obeyPowerOrder()`. */
export interface PowerPorts {
  readonly commands: CommandRunner;
  readonly machine: Pick<MachinePort, 'bootId'>;
  readonly log: Logger;
}

/**
 * Hands the order to systemd, which then ends the agent and everything else in order. Returns when the job is queued.
 * @throws NodeStreamError `nodestream-other-boot`, `nodestream-power-failed`
 */
export async function obeyPowerOrder(
  { commands, machine, log }: PowerPorts,
  { action, bootId }: PowerOrder,
  signal: AbortSignal,
): Promise<void> {
  const current = await machine.bootId();
  if (bootId !== current)
    throw new NodeStreamError(
      'nodestream-other-boot',
      `the order is for boot ${bootId}, and this is boot ${current}`,
    );
  log.warn('operator ordered a change of power', { action });
  try {
    await commands.run({ argv: ['systemctl', '--no-block', VERBS[action]], timeoutMs: QUEUE_MS, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new NodeStreamError('nodestream-power-failed', `running systemctl ${VERBS[action]}`, { cause });
  }
}
