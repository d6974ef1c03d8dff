import { cpus, freemem, totalmem } from 'node:os';

/** Resource usage of a machine since its boot. */
export interface MachineUsage {
  /** Of all processors together, idle time not included. */
  readonly cpuBusySeconds: number;
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
  /** What programs can still use without swapping. */
  readonly memoryAvailableBytes: number;
}

/** The present usage of this machine. In a container these are the figures of its host. */
export function machineUsage(): MachineUsage {
  const times = cpus().map((cpu) => cpu.times);
  const idleMs = times.reduce((sum, { idle }) => sum + idle, 0);
  const allMs = times.flatMap((each) => Object.values(each)).reduce((sum, ms) => sum + ms, 0);
  return {
    cpuBusySeconds: (allMs - idleMs) / 1000,
    cpuSeconds: allMs / 1000,
    memoryBytes: totalmem(),
    memoryAvailableBytes: freemem(), // Node reads MemAvailable on Linux
  };
}
