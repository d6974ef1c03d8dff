import type { Page } from '../../../internal/metrics/index.ts';
import type { StreamPort } from '../../../internal/file/index.ts';
import type { MachinePort } from '../../../internal/platform/index.ts';

/** Access to the machine that this program runs on. */
export interface LocalPorts {
  readonly machine: MachinePort;
  readonly streams: Pick<StreamPort, 'freeBytes' | 'fileSystem' | 'readChunks'>;
  /** Reads a page of a program on the loopback address; undefined when the program does not respond. */
  readonly readPage: (url: string, signal: AbortSignal) => Promise<Page | undefined>;
}
