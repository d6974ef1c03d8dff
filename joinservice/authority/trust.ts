import type { DocumentTrust, Floor } from '../../internal/authority/index.ts';

/** Who the owners are now, after which `owners` document, and in which epoch the cluster is. */
export interface TrustNow extends DocumentTrust {
  readonly ownersFloor: Floor | undefined;
}
