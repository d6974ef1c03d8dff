import type { SystemPorts } from '../../internal/platform/index.ts';

const COMMAND_MS = 30_000;
/** The systemd slice of all pods. */
const PODS_SLICE = 'kubepods.slice';

/** Ports (injected dependencies) to stop what a node runs. */
export interface StopPorts extends Pick<SystemPorts, 'commands' | 'log'> {
  readonly units: Pick<SystemPorts['units'], 'stop'>;
}

/** The units and containers that a node runs. */
export interface StopOptions {
  /** Units of the workloads, in the order in which they stop: a unit stops before the units that it needs. */
  readonly unitsToStop: readonly string[];
  /** The unit of the container runtime. Its shims keep running when it stops. */
  readonly runtimeUnit: string;
  readonly signal: AbortSignal;
}

/** Stops all units of the node and all of its containers. May be repeated. */
export async function stopUnits(ports: StopPorts, options: StopOptions): Promise<void> {
  const { units } = ports;
  const { signal, unitsToStop, runtimeUnit } = options;
  for (const unit of [...unitsToStop, PODS_SLICE]) await units.stop(unit, signal);
  // The shim of each container is in the runtime's control group and survives a stop of the runtime.
  await tryCommand(ports, ['systemctl', 'kill', '--kill-whom=all', '--signal=KILL', runtimeUnit], signal);
  await units.stop(runtimeUnit, signal);
}

/**
 * Runs a command and only logs its failure: after a crash, the repeated command has nothing to do and may
 * fail.
 */
export async function tryCommand(
  { commands, log }: Pick<StopPorts, 'commands' | 'log'>,
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): Promise<void> {
  try {
    await commands.run({ argv: [...argv], timeoutMs: COMMAND_MS, signal });
  } catch (error) {
    signal.throwIfAborted();
    log.info('step failed, continuing', { argv: argv.join(' '), error });
  }
}
