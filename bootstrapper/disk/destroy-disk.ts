import { diskCounter } from './disk-counter.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { RecordSlots } from './record-slots.ts';

/**
 * Destroys both records of a state disk, including the sealed shares and all key slots. Nobody can open the disk
 * afterwards, not even its owner. An earlier copy of the disk is refused after the disk was formatted again, or after
 * the counter was incremented. The next start of the agent formats the disk. Mapped and mounted parts of the disk stay
 * usable until the machine restarts, because the kernel has the key. May be repeated.
 */
export async function destroyStateDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  const slots = await RecordSlots.open(ports, settings, signal);
  await slots.destroy();
  await ports.tpm.use(signal, (connection) => diskCounter.increment(connection, signal));
  ports.log.warn('records of the state disk destroyed', { device: slots.device });
}
