import { createHash } from 'node:crypto';
import { trustedPem, signingPair, type KeySet } from '../../../internal/keyset/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { KUBELET_CLIENTS_CA, ROTATED_FILES } from './key-files.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

const MAX_BYTES = 256 * 1024;

/**
 * Puts the keys that control planes share where Kubernetes reads them, as far as the rotation is. As long as everything is
 * still what the cluster was made with, nothing is written: who has never replaced a key has one CA for all, as kubeadm makes
 * it. What is there already is not written again. May be repeated after any crash.
 */
export async function placeKubernetesKeys(files: FilePort, set: KeySet): Promise<void> {
  const clients = {
    believed: trustedPem(set, 'kubernetes-clients-ca'),
    signs: signingPair(set, 'kubernetes-clients-ca'),
  };
  const [serving, isSplit] = [
    await textOf(files, `${PATHS.pki}/ca.crt`),
    await files.stat(ROTATED_FILES.issuerCert),
  ];
  const isOneCa = isSame(clients.believed, serving) && isSame(clients.signs.public, serving);
  if (isOneCa && isSplit === undefined) return;
  const [frontProxy, serviceAccount] = [
    signingPair(set, 'front-proxy-ca'),
    signingPair(set, 'service-account'),
  ];
  await files.makeDirectory(PATHS.pki, 0o755);
  await writeKubeletClientsCa(files, clients.believed);
  await put(files, ROTATED_FILES.clientsTrustBundle, clients.believed);
  await put(files, ROTATED_FILES.frontProxyTrustBundle, trustedPem(set, 'front-proxy-ca'));
  await put(files, `${PATHS.pki}/sa.pub`, trustedPem(set, 'service-account'));
  // The controller manager follows this pair, and keeps the one it has while the halves don't fit.
  await put(files, ROTATED_FILES.issuerKey, clients.signs.private.reveal(), 0o600);
  await put(files, ROTATED_FILES.issuerCert, clients.signs.public);
  await put(files, `${PATHS.pki}/front-proxy-ca.key`, frontProxy.private.reveal(), 0o600);
  await put(files, `${PATHS.pki}/front-proxy-ca.crt`, frontProxy.public);
  await put(files, `${PATHS.pki}/sa.key`, serviceAccount.private.reveal(), 0o600);
}

/** Whom the kubelet of this node believes of its clients, one after the other. It follows the file. */
export async function writeKubeletClientsCa(files: FilePort, believedPem: string): Promise<void> {
  await files.makeDirectory(KUBELET_CLIENTS_CA.slice(0, KUBELET_CLIENTS_CA.lastIndexOf('/')));
  await put(files, KUBELET_CLIENTS_CA, believedPem);
}

/** What the configuration of Kubernetes says about these keys. */
export interface SharedKeyState {
  /** Whether kubelets believe others than the CA that signs for servers. */
  readonly hasKubeletClientsCa: boolean;
  /**
   * Of what each static pod reads at its start alone: another digest is another pod. A pod without one, and all of them
   * where no key was ever replaced, are as kubeadm makes them.
   */
  readonly podDigests: Readonly<Record<StaticPod, string | undefined>> | undefined;
}

export const STATIC_PODS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type StaticPod = (typeof STATIC_PODS)[number];

export const NEVER_ROTATED: SharedKeyState = { hasKubeletClientsCa: false, podDigests: undefined };

export async function readSharedKeyState(
  files: FilePort,
  etcd: Pick<EtcdClientFiles, 'caFile'>,
): Promise<SharedKeyState> {
  const forKubelet = (await files.stat(KUBELET_CLIENTS_CA)) !== undefined;
  if ((await files.stat(ROTATED_FILES.issuerCert)) === undefined)
    return { hasKubeletClientsCa: forKubelet, podDigests: undefined };
  const digestOf = async (paths: readonly string[]): Promise<string> => {
    const hash = createHash('sha256');
    for (const path of paths) hash.update(`${path}\0${await textOf(files, path)}\0`);
    return hash.digest('hex');
  };
  const { issuerCert } = ROTATED_FILES;
  const hasSameIssuer = isSame(await textOf(files, issuerCert), await textOf(files, `${PATHS.pki}/ca.crt`));
  // The files of whom they believe they follow. Who signed what they show themselves they notice within five minutes,
  // which is too late for those whom only a new start makes look: hence the issuer.
  const [pub, key] = [`${PATHS.pki}/sa.pub`, `${PATHS.pki}/sa.key`];
  const digests = {
    'kube-apiserver': await digestOf([etcd.caFile, pub, key, issuerCert]),
    'kube-controller-manager': await digestOf([key, issuerCert]),
    'kube-scheduler': hasSameIssuer ? undefined : await digestOf([issuerCert]),
  };
  return { hasKubeletClientsCa: forKubelet, podDigests: digests };
}

async function put(files: FilePort, path: string, text: string, mode = 0o644): Promise<void> {
  if (!isSame(await textOf(files, path), text)) await files.writeAtomic(path, text, { mode });
}

async function textOf(files: FilePort, path: string): Promise<string> {
  return Buffer.from((await files.read(path, MAX_BYTES)) ?? []).toString('utf8');
}

function isSame(one: string, other: string): boolean {
  return one.trim() === other.trim();
}
