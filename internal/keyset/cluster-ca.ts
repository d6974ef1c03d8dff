import { createCaCertPem, generateKeyPem } from '../pki/index.ts';
import { CLUSTER_CA } from './followed-ca.ts';
import { activePairs, trustedPublicPem, type KeySet, type RotatingPair } from './key-set.ts';
import type { KeyPhase } from './phases.ts';

/** Creates the cluster CA of a generation. Its name carries the generation, so that two CAs never have the same name. */
export async function createClusterCa(generation: number, nowMs: number): Promise<RotatingPair> {
  const keyPem = generateKeyPem();
  return {
    public: await createCaCertPem({ commonName: `cluster CA ${generation}`, keyPem, nowMs }),
    private: keyPem,
  };
}

/**
 * The cluster CA that signs in the current phase. undefined in a rotation that an earlier version started, because such
 * a rotation does not replace the cluster CA.
 */
export function signingClusterCa(set: KeySet): RotatingPair | undefined {
  return activePairs(set)[CLUSTER_CA];
}

/**
 * A PEM bundle of the cluster CAs that every member trusts in a phase. undefined if members keep the CAs that they
 * trust already: before phase `trust`, and in a rotation that an earlier version started.
 */
export function trustedClusterCas(
  phase: KeyPhase,
  { previous, next }: PublicGenerations,
): string | undefined {
  const [before, after] = [previous[CLUSTER_CA], next[CLUSTER_CA]];
  if (before === undefined || after === undefined || phase === 'distribute') return undefined;
  return trustedPublicPem(phase, { previous: before, next: after });
}

/** The public halves of both generations. */
interface PublicGenerations {
  readonly previous: { readonly [CLUSTER_CA]?: string | undefined };
  readonly next: { readonly [CLUSTER_CA]?: string | undefined };
}
