import type { DocumentTrust, Floor } from '../../internal/ownerdocument/index.ts';

/** The current owners, the newest `owners` document, and the epoch of the cluster. */
export interface CurrentTrust extends DocumentTrust {
  readonly ownersFloor: Floor | undefined;
}
