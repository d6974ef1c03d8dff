import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { Membership } from '../membership/index.ts';
import type { OpenedTicket } from '../joinclient/index.ts';
import {
  DISK_SHARES_FILE,
  parseDiskSharesSecret,
  parseKeySet,
  ROTATION_FILE,
} from '../../internal/keyset/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  installSharedKeys,
  KeyStore,
  oldGeneration,
  verifyClientsCa,
  verifyKeySet,
  verifyServersCa,
} from '../keyrotation/index.ts';
import {
  CONTROL_PLANE_KEY_FILES,
  KUBELET_FILES,
  writeKubeletClientsCa,
  writeKubeletServersCa,
} from '../kubernetes/index.ts';
import { AGENT_PATHS, KEY_PATHS, type NodeState } from '../nodestate/index.ts';
import { CredentialsError } from './errors.ts';

/**
 * Writes the content of a ticket to the files that workers read, each one atomically. The membership is
 * written last: a machine that finds it after a restart resumes as a member and needs all other files. May be
 * repeated.
 * @throws KeyRotationError for rotated keys that no owner has signed
 */
export async function installTicket(
  ports: { readonly files: FilePort; readonly state: NodeState; readonly log: Logger },
  ticket: OpenedTicket,
  nodeAddress: string,
): Promise<Membership> {
  const { files, state, log } = ports;
  await installKubeletServersCa(files, ticket);
  await installKubeletCertificates(files, ticket);
  await installKubeletClientsCa(files, ticket);
  const error = await installTicketKeys(files, ticket);
  if (error !== undefined) log.error('secret for disk shares in the ticket not stored', { error });
  const membership = membershipFromTicket(ticket, nodeAddress);
  await state.settings.save(ticket.settings);
  await state.roles.save(ticket.roles);
  await writeCredentials(files, membership);
  await state.membership.save(membership);
  return membership;
}

/** Writes the certificates of the membership as PEM files for other programs and for operators. */
export async function writeCredentials(
  files: FilePort,
  membership: Membership,
): Promise<{ readonly certFile: string; readonly caFile: string }> {
  await files.makeDirectory(AGENT_PATHS.credentials);
  const [certFile, caFile] = [`${AGENT_PATHS.credentials}/node.crt`, `${AGENT_PATHS.credentials}/ca.crt`];
  await files.writeAtomic(certFile, membership.nodeCertPem);
  await files.writeAtomic(caFile, membership.clusterCaPem);
  return { certFile, caFile };
}

/** Writes the certificates of the kubelet. */
export async function installKubeletCertificates(files: FilePort, ticket: OpenedTicket): Promise<void> {
  await files.makeDirectory(dirname(KUBELET_FILES.ca));
  const certificates = [
    [KUBELET_FILES.clientCert, ticket.kubeletClientCertPem],
    [KUBELET_FILES.servingCert, ticket.kubeletServingCertPem],
  ] as const;
  for (const [path, pem] of certificates) await files.writeAtomic(path, pem, { mode: 0o644 });
}

/**
 * Writes the CAs with which the kubelet verifies API servers, on a machine that joins or that was off for a long time.
 * @throws KeyRotationError like `verifyKubeletServersCa()`
 */
export async function installKubeletServersCa(
  files: FilePort,
  ticket: Pick<OpenedTicket, 'kubernetesCaPem' | 'signedKeys'>,
): Promise<void> {
  await verifyKubeletServersCa(files, ticket);
  await writeKubeletServersCa(files, ticket.kubernetesCaPem);
}

/**
 * Verifies the CAs of API servers in a ticket. Throws unless an owner has signed these CAs or this node has them
 * already; the caller then refuses the whole ticket. A running member never replaces its CAs with the CAs of a ticket,
 * because the ticket may come from a control plane that is one phase of the rotation behind.
 * @throws KeyRotationError if no owner has signed them
 */
export async function verifyKubeletServersCa(
  files: FilePort,
  { kubernetesCaPem, signedKeys }: Pick<OpenedTicket, 'kubernetesCaPem' | 'signedKeys'>,
): Promise<void> {
  const present = await readText(files, KUBELET_FILES.ca);
  if (present?.trim() === kubernetesCaPem.trim()) return;
  const isFirst = present === undefined;
  await verifyServersCa(new KeyStore(files, KEY_PATHS), signedKeys, { bundlePem: kubernetesCaPem, isFirst });
}

/**
 * Writes the CAs that the kubelet trusts for its clients, on a machine that joins or that was off for a long
 * time. A running member gets them from curators instead: a control plane that issues a ticket may be one phase
 * of a key rotation behind.
 * @throws KeyRotationError if no owner has signed them
 */
export async function installKubeletClientsCa(
  files: FilePort,
  { kubernetesClientsCaPem, signedKeys }: Pick<OpenedTicket, 'kubernetesClientsCaPem' | 'signedKeys'>,
): Promise<void> {
  if (kubernetesClientsCaPem === undefined) return;
  await verifyClientsCa(new KeyStore(files, KEY_PATHS), signedKeys, kubernetesClientsCaPem);
  await writeKubeletClientsCa(files, kubernetesClientsCaPem);
}

/**
 * Installs the shared keys in a ticket. The ticket may come from anybody who holds a key of the cluster and poses as a
 * join service, so the keys are verified.
 * @returns the result of `installDiskSharesKey()`
 * @throws KeyRotationError if no owner has signed the keys, or this node has replaced them
 */
export async function installTicketKeys(
  files: FilePort,
  ticket: Pick<OpenedTicket, 'controlPlaneKeys' | 'signedKeys'>,
): Promise<CredentialsError | undefined> {
  const { controlPlaneKeys, signedKeys } = ticket;
  if (controlPlaneKeys === undefined) return undefined;
  const store = new KeyStore(files, KEY_PATHS);
  const rotation = controlPlaneKeys.get(ROTATION_FILE);
  const { generation } = await store.loadStage();
  if (rotation !== undefined)
    await verifyKeySet(store, signedKeys, parseKeySet('keys in the ticket', rotation.reveal()));
  else if (generation > 1) throw oldGeneration(1, generation); // the keys that the cluster was created with
  return installControlPlaneKeys(files, controlPlaneKeys);
}

/**
 * Installs the shared keys of control planes by their names; the caller has verified them. They replace such keys on
 * this disk, because all control planes must have the same keys.
 * @returns the result of `installDiskSharesKey()`
 */
export async function installControlPlaneKeys(
  files: FilePort,
  keys: ReadonlyMap<string, Secret<string>>,
): Promise<CredentialsError | undefined> {
  for (const [name, path] of Object.entries(CONTROL_PLANE_KEY_FILES)) {
    const text = keys.get(name);
    if (text === undefined) throw new TypeError(`key ${name} expected in a verified ticket`);
    await files.makeDirectory(dirname(path), path.startsWith('/etc/') ? 0o755 : 0o700);
    await files.writeAtomic(path, text.reveal(), isPublic(name) ? { mode: 0o644 } : {});
  }
  const found = await installDiskSharesKey(files, keys.get(DISK_SHARES_FILE));
  const rotation = keys.get(ROTATION_FILE);
  if (rotation === undefined) return found;
  const store = new KeyStore(files, KEY_PATHS);
  await store.adoptSet(rotation);
  await installSharedKeys(files, store, AGENT_PATHS.state);
  return found;
}

/**
 * Writes the secret for disk shares if this disk has none, or a malformed one. It never replaces another one: no owner signs the secret, so that
 * a ticket could bring another one, with which no disk would open.
 * @param hex undefined if the sender has none
 * @returns an error if the secret differs from that of this disk, or is malformed. Other keys must not fail because of it.
 */
export async function installDiskSharesKey(
  files: FilePort,
  hex: Secret<string> | undefined,
): Promise<CredentialsError | undefined> {
  if (hex === undefined) return undefined;
  const given = parseDiskSharesSecret(hex);
  const path = AGENT_PATHS.diskShares;
  if (given === undefined)
    return new CredentialsError('credentials-share-secret-malformed', `storing ${path}`);
  const present = await readDiskSharesKey(files);
  if (present === undefined) {
    await files.makeDirectory(dirname(path), 0o700);
    await files.writeAtomic(path, hex.reveal());
    return undefined;
  }
  if (Buffer.compare(present.reveal(), given.reveal()) === 0) return undefined;
  return new CredentialsError('credentials-share-secret-other', `storing ${path}: it has another secret`);
}

/** The secret for disk shares on this disk; undefined if it is missing or malformed. */
export async function readDiskSharesKey(files: FilePort): Promise<Secret<Uint8Array> | undefined> {
  const text = await readText(files, AGENT_PATHS.diskShares);
  return text === undefined ? undefined : parseDiskSharesSecret(new Secret(text));
}

/** The membership that a ticket gives to the machine at this address. */
export function membershipFromTicket(ticket: OpenedTicket, nodeAddress: string): Membership {
  const { clusterId, clusterName, clusterCaPem, epoch, nodeId, nodeName, nodeCertPem, directory } = ticket;
  const { taints } = ticket;
  const cluster = { clusterId, clusterName, clusterCaPem, epoch, directory };
  const node = { nodeId, nodeName, nodeCertPem, nodeAddress };
  return { ...cluster, ...node, ...(taints.length === 0 ? {} : { taints }) };
}

function isPublic(name: string): boolean {
  return name.endsWith('.crt') || name.endsWith('.pub');
}
