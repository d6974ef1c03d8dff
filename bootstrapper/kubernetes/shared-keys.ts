import { createHash } from 'node:crypto';
import { believed, issuing, type KeySet } from '../../internal/keyset/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { KUBELET_CLIENTS_CA, REPLACED } from './material.ts';
import { PATHS, type EtcdClientFiles } from './settings.ts';

const MAX_BYTES = 256 * 1024;

/**
 * Puts the keys that control planes share where Kubernetes reads them, as far as the rotation is. As long as everything is
 * still what the cluster was made with, nothing is written: who has never replaced a key has one CA for all, as kubeadm makes
 * it. What is there already is not written again. May be repeated after any crash.
 */
export async function settleKubernetes(files: FilePort, set: KeySet): Promise<void> {
  const clients = {
    believed: believed(set, 'kubernetes-clients-ca'),
    signs: issuing(set, 'kubernetes-clients-ca'),
  };
  const [serving, isSplit] = [
    await textOf(files, `${PATHS.pki}/ca.crt`),
    await files.stat(REPLACED.issuerCert),
  ];
  const isOneCa = isSame(clients.believed, serving) && isSame(clients.signs.public, serving);
  if (isOneCa && isSplit === undefined) return;
  const [frontProxy, serviceAccount] = [issuing(set, 'front-proxy-ca'), issuing(set, 'service-account')];
  await files.makeDirectory(PATHS.pki, 0o755);
  await placeKubeletClientsCa(files, clients.believed);
  await put(files, REPLACED.clientsCa, clients.believed);
  await put(files, REPLACED.frontProxyCa, believed(set, 'front-proxy-ca'));
  await put(files, `${PATHS.pki}/sa.pub`, believed(set, 'service-account'));
  // The controller manager follows this pair, and keeps the one it has while the halves don't fit.
  await put(files, REPLACED.issuerKey, clients.signs.private.reveal(), 0o600);
  await put(files, REPLACED.issuerCert, clients.signs.public);
  await put(files, `${PATHS.pki}/front-proxy-ca.key`, frontProxy.private.reveal(), 0o600);
  await put(files, `${PATHS.pki}/front-proxy-ca.crt`, frontProxy.public);
  await put(files, `${PATHS.pki}/sa.key`, serviceAccount.private.reveal(), 0o600);
}

/** Whom the kubelet of this node believes of its clients, one after the other. It follows the file. */
export async function placeKubeletClientsCa(files: FilePort, believedPem: string): Promise<void> {
  await files.makeDirectory(KUBELET_CLIENTS_CA.slice(0, KUBELET_CLIENTS_CA.lastIndexOf('/')));
  await put(files, KUBELET_CLIENTS_CA, believedPem);
}

/** What the configuration of Kubernetes says about these keys. */
export interface SharedKeys {
  /** Whether kubelets believe others than the CA that signs for servers. */
  readonly forKubelet: boolean;
  /**
   * Of what each static pod reads at its start alone: another digest is another pod. A pod without one, and all of them
   * where no key was ever replaced, are as kubeadm makes them.
   */
  readonly digests: Readonly<Record<StaticPod, string | undefined>> | undefined;
}

export const STATIC_PODS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type StaticPod = (typeof STATIC_PODS)[number];

export const NEVER_REPLACED: SharedKeys = { forKubelet: false, digests: undefined };

export async function readSharedKeys(
  files: FilePort,
  etcd: Pick<EtcdClientFiles, 'caFile'>,
): Promise<SharedKeys> {
  const forKubelet = (await files.stat(KUBELET_CLIENTS_CA)) !== undefined;
  if ((await files.stat(REPLACED.issuerCert)) === undefined) return { forKubelet, digests: undefined };
  const digestOf = async (paths: readonly string[]): Promise<string> => {
    const hash = createHash('sha256');
    for (const path of paths) hash.update(`${path}\0${await textOf(files, path)}\0`);
    return hash.digest('hex');
  };
  const { issuerCert } = REPLACED;
  const hasSameIssuer = isSame(await textOf(files, issuerCert), await textOf(files, `${PATHS.pki}/ca.crt`));
  // The files of whom they believe they follow. Who signed what they show themselves they notice within five minutes,
  // which is too late for those whom only a new start makes look: hence the issuer.
  const [pub, key] = [`${PATHS.pki}/sa.pub`, `${PATHS.pki}/sa.key`];
  const digests = {
    'kube-apiserver': await digestOf([etcd.caFile, pub, key, issuerCert]),
    'kube-controller-manager': await digestOf([key, issuerCert]),
    'kube-scheduler': hasSameIssuer ? undefined : await digestOf([issuerCert]),
  };
  return { forKubelet, digests };
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
