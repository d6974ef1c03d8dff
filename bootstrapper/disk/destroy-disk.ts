import { incrementDiskCounter } from './disk-counter.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { RecordSlots } from './record-slots.ts';

/**
 * Destroys both records of a state disk, and with them the sealed shares and all key slots: nobody can open it any more, not its
 * owner either. An earlier copy of the disk is refused once the disk was formatted again, or the counter incremented. The disk that
 * is left is formatted at the next start. What is mapped and mounted stays so until the machine restarts, because the kernel has the
 * key. May be repeated.
 */
export async function destroyStateDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<void> {
  const slots = await RecordSlots.open(ports, settings, signal);
  await slots.destroy();
  await ports.tpm.use(signal, (connection) => incrementDiskCounter(connection, signal));
  ports.log.warn('records of the state disk destroyed', { device: slots.device });
}
