import type { NodeUsage } from './observations.ts';

/** The used share of the memory; undefined if it is not known. */
export function memoryShare(usage: NodeUsage | undefined): number | undefined {
  const { memoryBytes, memoryAvailableBytes } = usage ?? {};
  if (memoryBytes === undefined || memoryAvailableBytes === undefined || memoryBytes === 0) return undefined;
  return Math.max(0, 1 - memoryAvailableBytes / memoryBytes);
}

/** The used share of the fullest file system with data of the cluster; undefined if none is known. */
export function diskShare(usage: NodeUsage | undefined): number | undefined {
  const shares = (usage?.disks ?? []).map(({ sizeBytes, availableBytes }) => 1 - availableBytes / sizeBytes);
  return shares.length === 0 ? undefined : Math.max(0, ...shares);
}

/** A share as "42%"; "–" if it is not known. */
export function percent(share: number | undefined): string {
  return share === undefined ? '–' : `${Math.round(share * 100)}%`;
}
