import { arch, availableParallelism, totalmem } from 'node:os';
import type { Machine } from './context.ts';

/** This machine; bundles are made for its own architecture. */
export function thisMachine(): Machine {
  return {
    architecture: arch() === 'arm64' ? 'arm64' : 'amd64',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
  };
}
