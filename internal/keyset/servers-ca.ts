import { createCaCertPem, createCrossCertPem, generateKeyPem, maySignCas } from '../pki/index.ts';
import { trustedPublicPem, type RotatingPair } from './key-set.ts';
import type { KeyPhase, LaterKey } from './phases.ts';

/** Name of the CA that signs the certificates of API servers and kubelets as servers. */
export const SERVERS_CA = 'kubernetes-ca' satisfies LaterKey;
/** Common name of the first one, as with kubeadm; later ones append their generation. */
export const SERVERS_CA_NAME = 'kubernetes';

/**
 * Creates the CA of servers that replaces another one.
 *
 * Pods and kubeconfigs pin this CA: many clients read it only when they start. Therefore its servers send a cross-certificate, which
 * such clients accept until they start again. The CA of a cluster that an earlier version created may not sign one, and no client would
 * accept it. It keeps its key in this rotation, with a certificate that permits the cross-certificate of the next one.
 */
export async function createServersCa(
  generation: number,
  nowMs: number,
  replaced: RotatingPair,
): Promise<RotatingPair> {
  const [caPem, { private: keyPem }] = [replaced.public, replaced];
  const create = (commonName: string, key: RotatingPair['private']): Promise<string> =>
    createCaCertPem({ commonName, keyPem: key, nowMs, pathLength: 1 });
  if (!maySignCas(caPem)) return { public: await create(SERVERS_CA_NAME, keyPem), private: keyPem };
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
 * The CAs with which a kubelet verifies API servers. In `refresh` all of them have certificates of the new CA, and every kubelet
 * restarts: it reads the file then, and need not restart again in `retire`.
 */
export function kubeletTrustPem(phase: KeyPhase, cas: Generations): string {
  return serversTrustPem(phase === 'refresh' ? 'retire' : phase, cas);
}
