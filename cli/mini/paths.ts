import { join } from 'node:path';
import { HostProcesses } from '../../internal/exec/index.ts';
import type { HostPorts } from '../../internal/localmachines/index.ts';
import type { CommandContext } from '../app/command.ts';

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Where local clusters lie and what they share. */
export interface MiniPaths {
  /** One directory for each local cluster. */
  readonly root: string;
  readonly rootfs: string;
  readonly layers: string;
  /** A blob store that machines may read when they are not to start empty. */
  readonly blobs: string;
}

export function miniPathsFrom(context: Pick<CommandContext, 'paths'>): MiniPaths {
  const { cache, data } = context.paths;
  return {
    root: join(data, 'mini'),
    rootfs: join(cache, 'rootfs'),
    layers: join(cache, 'layers'),
    blobs: join(cache, 'blobs'),
  };
}

/** This machine as the carrier of local ones. */
export function machineHostFrom(context: Pick<CommandContext, 'ports' | 'env'>): HostPorts {
  return { ...context.ports, processes: new HostProcesses({ path: context.env['PATH'] ?? DEFAULT_PATH }) };
}
