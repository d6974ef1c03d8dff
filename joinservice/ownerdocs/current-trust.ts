import type { DocumentTrust, Floor } from '../../internal/ownerdocument/index.ts';

/** Who the owners are now, after which `owners` document, and in which epoch the cluster is. */
export interface CurrentTrust extends DocumentTrust {
  readonly ownersFloor: Floor | undefined;
}
