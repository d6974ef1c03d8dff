import { dirname } from 'node:path';
import { createHash } from 'node:crypto';
import {
  encryptionKeysIn,
  isReplaced,
  kubeletTrustPem,
  SERVERS_CA,
  serversTrustPem,
  trustedPem,
  signingPair,
  type KeySet,
} from '../../../internal/keyset/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import { isFirstEncryption, renderEncryptionConfig } from '../encryption/encryption-config.ts';
import { KUBELET_CLIENTS_CA, KUBELET_FILES, ROTATED_FILES } from './key-files.ts';
import { PATHS, type EtcdClientFiles } from '../settings.ts';

/** The CA that signs for servers; before the first rotation, also for clients. */
const CA_FILE = `${PATHS.pki}/ca.crt`;

/**
 * Writes the control planes' shared keys to the paths that Kubernetes reads, for the current phase of a key
 * rotation. Before the first rotation, this function writes nothing: servers and clients have one CA, as with
 * kubeadm. Unchanged files are not written. May be repeated after any crash.
 */
export async function placeKubernetesKeys(files: FilePort, set: KeySet): Promise<void> {
  await placeEncryptionKeys(files, set);
  await placeClientKeys(files, set);
  // The client keys come first, because until the first rotation the kubelet verifies its clients with the CA of
  // servers.
  await placeServersCa(files, set);
}

async function placeClientKeys(files: FilePort, set: KeySet): Promise<void> {
  const trusted = trustedPem(set, 'kubernetes-clients-ca');
  const issuer = signingPair(set, 'kubernetes-clients-ca');
  const serving = await textOf(files, CA_FILE);
  const isOneCa = isSame(trusted, serving) && isSame(issuer.public, serving);
  if (isOneCa && (await files.stat(ROTATED_FILES.issuerCert)) === undefined) return;
  const frontProxy = signingPair(set, 'front-proxy-ca');
  const serviceAccount = signingPair(set, 'service-account');
  await files.makeDirectory(PATHS.pki, 0o755);
  await writeKubeletClientsCa(files, trusted);
  await put(files, ROTATED_FILES.clientsTrustBundle, trusted);
  await put(files, ROTATED_FILES.frontProxyTrustBundle, trustedPem(set, 'front-proxy-ca'));
  await put(files, `${PATHS.pki}/sa.pub`, trustedPem(set, 'service-account'));
  // The controller manager reloads this key pair. It keeps its current pair while the two files do not match.
  await put(files, ROTATED_FILES.issuerKey, issuer.private.reveal(), 0o600);
  await put(files, ROTATED_FILES.issuerCert, issuer.public);
  await put(files, `${PATHS.pki}/front-proxy-ca.key`, frontProxy.private.reveal(), 0o600);
  await put(files, `${PATHS.pki}/front-proxy-ca.crt`, frontProxy.public);
  await put(files, `${PATHS.pki}/sa.key`, serviceAccount.private.reveal(), 0o600);
}

/**
 * Writes the CA of servers and its trust bundle. Does nothing while both are still those with which the cluster was
 * created.
 */
async function placeServersCa(files: FilePort, set: KeySet): Promise<void> {
  if (!isReplaced(set, SERVERS_CA)) return;
  const [previous, next] = [set.previous[SERVERS_CA].public, set.next[SERVERS_CA].public];
  const trusted = serversTrustPem(set.phase, { previous, next });
  const issuer = signingPair(set, SERVERS_CA);
  const hasFirstCa = isSame(trusted, issuer.public) && isSame(trusted, await textOf(files, CA_FILE));
  if (hasFirstCa && (await files.stat(ROTATED_FILES.serversTrustBundle)) === undefined) return;
  await files.makeDirectory(PATHS.pki, 0o755);
  await put(files, ROTATED_FILES.serversTrustBundle, trusted);
  await writeKubeletServersCa(files, kubeletTrustPem(set.phase, { previous, next }));
  await put(files, `${PATHS.pki}/ca.key`, issuer.private.reveal(), 0o600);
  await put(files, CA_FILE, issuer.public);
  if (issuer.cross === undefined) await files.remove(ROTATED_FILES.serversCross);
  else await put(files, ROTATED_FILES.serversCross, issuer.cross);
}

/**
 * Writes the encryption keys in every phase, even in `distribute`, which does not change them. The file in a ticket is
 * not signed by an owner, but the keys in the set are.
 */
async function placeEncryptionKeys(files: FilePort, { phase, encryption }: KeySet): Promise<void> {
  if (encryption === undefined) return;
  const config = renderEncryptionConfig(encryption.resources, encryptionKeysIn(phase, encryption));
  await files.makeDirectory(dirname(PATHS.encryption));
  await put(files, PATHS.encryption, config, 0o600);
}

/** Writes the CA certificates that the kubelet of this node trusts for its clients. The kubelet reloads the file. */
export async function writeKubeletClientsCa(files: FilePort, trustedPemText: string): Promise<void> {
  await files.makeDirectory(dirname(KUBELET_CLIENTS_CA));
  await put(files, KUBELET_CLIENTS_CA, trustedPemText);
}

/**
 * Writes the CA certificates with which the kubelet of this node verifies API servers. The kubelet reads the file only
 * when it starts.
 */
export async function writeKubeletServersCa(files: FilePort, trustedPemText: string): Promise<void> {
  await files.makeDirectory(dirname(KUBELET_FILES.ca));
  await put(files, KUBELET_FILES.ca, trustedPemText);
}

/** The effect of the shared keys on the configuration of Kubernetes. */
export interface SharedKeyState {
  /** Whether the kubelet trusts other CAs than the Kubernetes CA for its clients. */
  readonly hasKubeletClientsCa: boolean;
  /** Whether a rotation has replaced the CA of servers. */
  readonly hasServersTrustBundle: boolean;
  /**
   * Digest of the files that a static pod reads only at its start; a new digest restarts the pod. undefined for a pod
   * whose files are all still as kubeadm created them, and for all static pods before the first rotation.
   */
  readonly podDigests: Readonly<Record<StaticPod, string | undefined>> | undefined;
}

/** The static pods of a control plane. */
export const STATIC_PODS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
/** Name of a static pod. */
export type StaticPod = (typeof STATIC_PODS)[number];

/** The state before the first key rotation. */
export const NEVER_ROTATED: SharedKeyState = {
  hasKubeletClientsCa: false,
  hasServersTrustBundle: false,
  podDigests: undefined,
};

/** Reads the state of the shared keys from disk. */
export async function readSharedKeyState(
  files: FilePort,
  etcd: Pick<EtcdClientFiles, 'caFile'>,
): Promise<SharedKeyState> {
  const hasKubeletClientsCa = (await files.stat(KUBELET_CLIENTS_CA)) !== undefined;
  const hasServersTrustBundle = (await files.stat(ROTATED_FILES.serversTrustBundle)) !== undefined;
  if ((await files.stat(ROTATED_FILES.issuerCert)) === undefined)
    return { hasKubeletClientsCa, hasServersTrustBundle, podDigests: undefined };
  const digestOf = async (paths: readonly string[]): Promise<string> => {
    const hash = createHash('sha256');
    for (const path of paths) hash.update(`${path}\0${await textOf(files, path)}\0`);
    return hash.digest('hex');
  };
  const { issuerCert } = ROTATED_FILES;
  const hasSameIssuer = isSame(await textOf(files, issuerCert), await textOf(files, CA_FILE));
  // These components reload trusted CAs at once. They notice a new issuer of their own certificates only
  // after up to 5 min, so the digest includes `issuerCert`.
  const [pub, key] = [`${PATHS.pki}/sa.pub`, `${PATHS.pki}/sa.key`];
  // API servers reload this file only from time to time, and nothing shows which content they use. So the digest
  // includes it. A file that no rotation has changed is left out, so that an upgrade of the agent restarts no API
  // server.
  const encryption = isFirstEncryption(await textOf(files, PATHS.encryption)) ? [] : [PATHS.encryption];
  // Clients in Kubernetes 1.35 read this file only once; clients in later versions read it again every few minutes.
  const servers = hasServersTrustBundle ? [ROTATED_FILES.serversTrustBundle] : [];
  const podDigests = {
    'kube-apiserver': await digestOf([etcd.caFile, pub, key, issuerCert, ...servers, ...encryption]),
    'kube-controller-manager': await digestOf([key, issuerCert, ...servers]),
    'kube-scheduler': hasSameIssuer ? undefined : await digestOf([issuerCert, ...servers]),
  };
  return { hasKubeletClientsCa, hasServersTrustBundle, podDigests };
}

async function put(files: FilePort, path: string, text: string, mode = 0o644): Promise<void> {
  if (!isSame(await textOf(files, path), text)) await files.writeAtomic(path, text, { mode });
}

async function textOf(files: FilePort, path: string): Promise<string> {
  return (await readText(files, path)) ?? '';
}

function isSame(one: string, other: string): boolean {
  return one.trim() === other.trim();
}
