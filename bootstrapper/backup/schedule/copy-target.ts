import type { BackupRecord } from '../../../internal/records/index.ts';

/** What has to be at the target of copies. */
export interface WantedCopies {
  /** Proved backups of this node. */
  readonly backups: readonly BackupRecord[];
  /** How many copies stay: also those of backups that the node itself has lost. */
  readonly keep: number;
  /** Names of the copies that were read back. */
  readonly verified: readonly string[];
}

/** Where one node copies its backups to. */
export interface CopyTarget {
  /**
   * Copies what is missing and deletes all but the newest. Resolves to the names that stay.
   * @param from directory where this node keeps its backups
   */
  update(from: string, wanted: WantedCopies, signal: AbortSignal): Promise<readonly string[]>;
}
