import { certificatesIn } from '../pki/index.ts';
import { digestOf, type SignedKeys } from './signed-keys.ts';

/** Name of the cluster CA in records, owner documents and key sets. */
export const CLUSTER_CA = 'cluster-ca';

/** The cluster CA that a machine or a workspace trusts so far. */
export interface KnownClusterCa {
  /** PEM bundle; undefined for a machine that has not joined yet. */
  readonly trustedPem: string | undefined;
  /**
   * The newest generation of the shared keys that has replaced those before it, as far as this is known; 1 for the keys that a
   * cluster is created with.
   */
  readonly generation: number;
}

/** A cluster CA that an owner has signed, and its generation. */
interface FollowedCa {
  readonly pem: string;
  readonly generation: number;
}

/**
 * Selects those CAs in a bundle that may be trusted because an owner has signed the generation that they are of. Never one that
 * the known CA has replaced: its key may be in other hands. That CA says nothing about its successor. Pure.
 * @param shownPem untrusted
 */
export function followedClusterCas(
  shownPem: string,
  { previous, next, generation }: SignedKeys,
  known: KnownClusterCa,
): readonly FollowedCa[] {
  const [before, after] = [previous[CLUSTER_CA], next[CLUSTER_CA]];
  if (before === undefined || after === undefined || generation < known.generation) return [];
  const isReplaced =
    generation === known.generation ||
    certificatesIn(known.trustedPem ?? '').some((pem) => digestOf(pem) === after);
  return certificatesIn(shownPem).flatMap((pem) => {
    const digest = digestOf(pem);
    if (digest === after) return [{ pem, generation }];
    return digest === before && !isReplaced ? [{ pem, generation: generation - 1 }] : [];
  });
}
