import type { BackupRecord } from '../../../internal/records/index.ts';

/** The copies that the target has to contain. */
export interface WantedCopies {
  /** Proved backups of this node. */
  readonly backups: readonly BackupRecord[];
  /** The number of copies to keep, including copies of backups that the node itself has lost. */
  readonly keep: number;
  /** Names of the copies that were read back. */
  readonly verified: readonly string[];
}

/** A target to which one node copies its backups. */
export interface CopyTarget {
  /**
   * Copies the missing backups and deletes all copies but the newest. Resolves to the names of the copies that remain.
   * @param from directory where this node keeps its backups
   */
  update(from: string, wanted: WantedCopies, signal: AbortSignal): Promise<readonly string[]>;
}
