import { DiskStreams, type StreamPort } from '../../../internal/file/index.ts';
import { readPage, type Page } from '../../../internal/metrics/index.ts';
import { LinuxMachine, type MachinePort } from '../../../internal/platform/index.ts';
import type { CommandContext } from '../../app/command.ts';

/** Access to the machine that this program runs on. */
export interface LocalPorts {
  readonly machine: MachinePort;
  readonly streams: Pick<StreamPort, 'freeBytes' | 'fileSystem' | 'readChunks'>;
  /** Reads a page of a program on the loopback address; undefined when the program does not respond. */
  readonly readPage: (url: string, signal: AbortSignal) => Promise<Page | undefined>;
}

/** The ports of the machine that this program runs on. */
export function localPortsOf({ ports: { clock, files } }: CommandContext): LocalPorts {
  return {
    machine: new LinuxMachine(files),
    streams: new DiskStreams(),
    readPage: (url, signal) => readPage(url, { clock, signal }),
  };
}
