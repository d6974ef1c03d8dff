/**
 * The machine as a port: its addresses and boot id, systemd units, and the lock against a second process of
 * the same program.
 */
export { readAvailableMemory } from './available-memory.ts';
export { collectGarbageRegularly } from './collect-garbage.ts';
export { PlatformError } from './errors.ts';
export { addressBeside, interfaceAddress, LinuxMachine, type MachinePort } from './linux-machine.ts';
export { LowPriority } from './low-priority.ts';
export { mountOf, parseMountinfo, readMounts, whyUnwritable, type Mount } from './mountinfo.ts';
export { readStorageProtection, type StorageProtection } from './storage-protection.ts';
export { NODE_MEMORY, SERVICE_SANDBOX } from './service-sandbox.ts';
export { type SystemPorts } from './system-ports.ts';
export { SystemdUnits, UNIT_DIRECTORY, type UnitPort, type UnitStatus } from './systemd-units.ts';
export { acquireProcessLock } from './process-lock.ts';
export {
  currentProcessIdentity,
  processorTicks,
  processStatus,
  type ProcessIdentity,
} from './process-identity.ts';
