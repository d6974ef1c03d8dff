import { certificatesIn } from '../pki/index.ts';
import { digestOf, type SignedKeys } from './signed-keys.ts';

/** Name of the cluster CA in records, owner documents and key sets. */
export const CLUSTER_CA = 'cluster-ca';

/** The cluster CA that a machine or a workspace trusts so far. */
export interface KnownClusterCa {
  /** PEM bundle; undefined for a machine that has not joined yet. */
  readonly trustedPem: string | undefined;
  /**
   * The newest generation of the shared keys that the caller knows as current. The keys that a cluster is created with
   * have generation 1.
   */
  readonly generation: number;
}

/** A cluster CA that an owner has signed, and its generation. */
interface FollowedCa {
  readonly pem: string;
  readonly generation: number;
}

/**
 * Selects the CAs in a bundle that the caller may trust because an owner has signed their generation. Never selects a
 * CA that the known CA has replaced, because its private key may be stolen. The signature of an owner decides, and not
 * a signature of the known CA. Pure.
 * @param shownPem a bundle from an untrusted peer
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
