import { join } from 'node:path';
import { HostProcesses } from '../../internal/exec/index.ts';
import type { HostPorts } from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Directories of local clusters. */
export interface MiniPaths {
  /** Contains one directory for each local cluster. */
  readonly root: string;
  readonly rootfs: string;
  readonly layers: string;
  /** The blob store that machines read, unless they start without components. */
  readonly blobs: string;
}

/** Directories below the data and cache directories of the user. */
export function miniPathsFrom(context: Pick<CommandContext, 'paths'>): MiniPaths {
  const { cache, data } = context.paths;
  return {
    root: join(data, 'mini'),
    rootfs: join(cache, 'rootfs'),
    layers: join(cache, 'layers'),
    blobs: join(cache, 'blobs'),
  };
}

/** Access to this machine as the host of local machines. */
export function machineHostFrom(context: Pick<CommandContext, 'ports' | 'env'>): HostPorts {
  return { ...context.ports, processes: new HostProcesses({ path: context.env['PATH'] ?? DEFAULT_PATH }) };
}
