import { z } from 'zod';
import type { Logger } from '../../internal/logging/index.ts';
import { knownMachineShape, MAX_KNOWN_MACHINES, type KnownMachine } from '../../internal/records/index.ts';
import type { ChecksummedFile } from '../membership/index.ts';

/** More members that other nodes know as removed are not remembered: an owner has to look at the cluster anyway. */
export const MAX_UNMERGED = 64;

const shape = z.object({
  clusterId: z.string(),
  epoch: z.int().positive(),
  sha256: z.string(),
  machines: z.array(knownMachineShape).max(MAX_KNOWN_MACHINES),
  unmerged: z.array(knownMachineShape).max(MAX_UNMERGED),
});

/** The machines that the cluster refused when this node asked last. */
export interface SavedRemovals {
  readonly clusterId: string;
  /** The epoch of the cluster that sent the list. */
  readonly epoch: number;
  /** The hash of the list, as curators announce it. */
  readonly sha256: string;
  readonly machines: readonly KnownMachine[];
  /** Members that this node knows as removed, because the cluster was restored from an older backup. */
  readonly unmerged: readonly KnownMachine[];
}

/** Reads the list. A damaged one, and one of another cluster, counts as none: curators send it again. */
export async function loadRemovals(
  saved: Pick<ChecksummedFile<SavedRemovals>, 'load'>,
  clusterId: string,
  log: Logger,
): Promise<SavedRemovals | undefined> {
  try {
    const stored = await saved.load();
    if (stored === undefined) return undefined;
    const list = shape.parse(stored);
    return list.clusterId === clusterId ? list : undefined;
  } catch (error) {
    log.warn('saved list of removed machines damaged, ignoring it', { error });
    return undefined;
  }
}
