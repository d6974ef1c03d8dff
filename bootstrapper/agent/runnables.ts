import type { Runnable } from '../../internal/supervisor/index.ts';
import { createControlPlaneDriver } from './create-control-plane-driver.ts';
import { entryRunnables } from './entry-runnables.ts';
import { memberRunnables } from './member-runnables.ts';
import { operatorRunnables } from './operator-runnables.ts';
import type { Wiring } from './wiring.ts';
import { workloadRunnables } from './workload-runnables.ts';

/**
 * Everything that the agent runs, by the name that status, logs and metrics show. Only this function decides
 * which worker writes which value.
 * @throws TypeError when a value has no writer, or two
 */
export function createRunnables(options: Omit<Wiring, 'driver'>): Readonly<Record<string, Runnable>> {
  const wiring: Wiring = { ...options, driver: createControlPlaneDriver(options) };
  const runnables = {
    ...entryRunnables(wiring),
    ...memberRunnables(wiring),
    ...operatorRunnables(wiring),
    ...workloadRunnables(wiring),
  };
  const [unclaimed] = options.node.valueStore.unclaimed;
  if (unclaimed !== undefined) throw new TypeError(`value ${unclaimed} has no writer`);
  return runnables;
}
