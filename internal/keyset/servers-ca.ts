import { createCaCertPem, createCrossCertPem, generateKeyPem, maySignCas } from '../pki/index.ts';
import { trustedPublicPem, type RotatingPair } from './key-set.ts';
import type { KeyPhase, LaterKey } from './phases.ts';

/** Name of the CA that signs the certificates of API servers and kubelets as servers. */
export const SERVERS_CA = 'kubernetes-ca' satisfies LaterKey;
/** Common name of the first such CA, as with kubeadm. Later CAs append their generation. */
export const SERVERS_CA_NAME = 'kubernetes';

/**
 * Creates the CA that replaces the current CA of API servers and kubelets.
 *
 * Pods and kubeconfigs pin this CA, and many clients read it only when they start. Therefore servers of the new CA also
 * send a cross-certificate, which such clients accept until they restart. If an earlier version created the cluster,
 * its CA may not sign a cross-certificate (path length 0), and no client would accept one. Such a CA keeps its key in
 * this rotation. It gets a new certificate that permits a cross-certificate in the next rotation.
 */
export async function createServersCa(
  generation: number,
  nowMs: number,
  replaced: RotatingPair,
): Promise<RotatingPair> {
  const [caPem, { private: keyPem }] = [replaced.public, replaced];
  const create = (commonName: string, key: RotatingPair['private']): Promise<string> =>
    createCaCertPem({ commonName, keyPem: key, nowMs, pathLength: 1 });
  if (!(await maySignCas(caPem))) return { public: await create(SERVERS_CA_NAME, keyPem), private: keyPem };
  const key = generateKeyPem();
  const newPem = await create(`${SERVERS_CA_NAME} ${generation}`, key);
  return { public: newPem, private: key, cross: await createCrossCertPem(newPem, { caPem, keyPem }, nowMs) };
}

/** The public halves of a CA that is replaced, PEM. */
interface Generations {
  readonly previous: string;
  readonly next: string;
}

/**
 * The CAs with which clients verify API servers and kubelets, PEM. In `trust` the new CA is not needed yet, because a server that is
 * one phase ahead sends the cross-certificate. So no client restarts in that phase.
 */
export function serversTrustPem(phase: KeyPhase, cas: Generations): string {
  return trustedPublicPem(phase === 'trust' ? 'distribute' : phase, cas);
}

/**
 * The CAs with which a kubelet verifies API servers. In `refresh`, all API servers have certificates of the new CA, and
 * every kubelet restarts. A kubelet reads this file when it starts, so the file contains only the new CA from then on.
 * The kubelet then need not restart again in `retire`.
 */
export function kubeletTrustPem(phase: KeyPhase, cas: Generations): string {
  return serversTrustPem(phase === 'refresh' ? 'retire' : phase, cas);
}
