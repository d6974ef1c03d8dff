import { dirname } from 'node:path';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { Membership } from '../membership/index.ts';
import type { OpenedTicket } from '../joinclient/index.ts';
import { DISK_SHARES_FILE, parseKeySet, ROTATION_FILE } from '../../internal/keyset/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
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

/**
 * Writes the content of a ticket to the files that workers read, each one atomically. The membership is
 * written last: a machine that finds it after a restart resumes as a member and needs all other files. May be
 * repeated.
 * @throws KeyRotationError for rotated keys that no owner has signed
 */
export async function installTicket(
  ports: { readonly files: FilePort; readonly state: NodeState },
  ticket: OpenedTicket,
  nodeAddress: string,
): Promise<Membership> {
  const { files, state } = ports;
  await installKubeletServersCa(files, ticket);
  await installKubeletCertificates(files, ticket);
  await installKubeletClientsCa(files, ticket);
  await installTicketKeys(files, ticket);
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
 * @throws KeyRotationError if no owner has signed the keys, or this node has replaced them
 */
export async function installTicketKeys(
  files: FilePort,
  ticket: Pick<OpenedTicket, 'controlPlaneKeys' | 'signedKeys'>,
): Promise<void> {
  const { controlPlaneKeys, signedKeys } = ticket;
  if (controlPlaneKeys === undefined) return;
  const store = new KeyStore(files, KEY_PATHS);
  const rotation = controlPlaneKeys.get(ROTATION_FILE);
  const { generation } = await store.loadStage();
  if (rotation !== undefined)
    await verifyKeySet(store, signedKeys, parseKeySet('keys in the ticket', rotation.reveal()));
  else if (generation > 1) throw oldGeneration(1, generation); // the keys that the cluster was created with
  await installControlPlaneKeys(files, controlPlaneKeys);
}

/**
 * Installs the shared keys of control planes by their names; the caller has verified them. They replace such keys on
 * this disk, because all control planes must have the same keys.
 */
export async function installControlPlaneKeys(
  files: FilePort,
  keys: ReadonlyMap<string, Secret<string>>,
): Promise<void> {
  for (const [name, path] of Object.entries(CONTROL_PLANE_KEY_FILES)) {
    const text = keys.get(name);
    if (text === undefined) throw new TypeError(`key ${name} expected in a verified ticket`);
    await files.makeDirectory(dirname(path), path.startsWith('/etc/') ? 0o755 : 0o700);
    await files.writeAtomic(path, text.reveal(), isPublic(name) ? { mode: 0o644 } : {});
  }
  const secret = keys.get(DISK_SHARES_FILE);
  if (secret !== undefined) await installDiskSharesKey(files, secret);
  const rotation = keys.get(ROTATION_FILE);
  if (rotation === undefined) return;
  const store = new KeyStore(files, KEY_PATHS);
  await store.adoptSet(rotation);
  await installSharedKeys(files, store, AGENT_PATHS.state);
}

/**
 * Writes the secret for the shares of state disks, unless there is one: no owner signs it, so that a ticket could bring another one, with which no
 * disk would open.
 */
export async function installDiskSharesKey(files: FilePort, hex: Secret<string>): Promise<void> {
  await files.makeDirectory(dirname(AGENT_PATHS.diskShares), 0o700);
  await files.createExclusive(AGENT_PATHS.diskShares, hex.reveal());
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
