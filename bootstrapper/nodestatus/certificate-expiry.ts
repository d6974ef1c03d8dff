import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { consensusLayout, ETCD_INSTANCES } from '../consensus/index.ts';
import { COMPONENT_CLIENTS, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { FileCache } from './file-cache.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const MAX_BYTES = 256 * 1024;
const KUBECONFIGS = ['admin.conf'];
/** How long a listing holds: dates of certificates are no news. */
const FRESH_MS = 60_000;
const FOLDERS = [
  AGENT_PATHS.credentials,
  folderOf(KUBELET_FILES.ca),
  ...Object.values(ETCD_INSTANCES).flatMap(({ name, clients }) => {
    const layout = consensusLayout(AGENT_PATHS.state, name);
    const { server, clientsCa, peersCa } = layout;
    const folders = [server, clientsCa, peersCa].map(({ certFile }) => folderOf(certFile));
    return [...folders, ...clients.map((client) => layout.user(client).folder)];
  }),
  AGENT_PATHS.ca,
  PATHS.pki,
  ...Object.values(COMPONENT_CLIENTS).map(({ folder }) => folder),
];

export interface CertificateExpiry {
  /** Its file, so that an operator finds it. */
  readonly name: string;
  readonly notAfterMs: number;
}

/**
 * Lists the certificates again when the last listing is a minute old; of those that were not written since it tells what
 * they said then, because reading and parsing them all is dear for an agent that idles.
 */
export function createCertificateExpiryLister(
  files: FilePort,
  clock: Pick<Clock, 'monotonicMs'>,
): () => Promise<readonly CertificateExpiry[]> {
  const folders = new FileCache<readonly string[]>(files);
  const certificates = new FileCache<readonly CertificateExpiry[]>(files);
  const look: Look = {
    namesIn: async (folder) => (await folders.get(folder, () => files.list(folder))) ?? [],
    expiryOf: async (path, read) => (await certificates.get(path, read)) ?? [],
  };
  let last: { readonly atMs: number; readonly listed: Promise<readonly CertificateExpiry[]> } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (last !== undefined && nowMs - last.atMs < FRESH_MS) return last.listed;
    const listed = listWith(files, look);
    last = { atMs: nowMs, listed };
    listed.catch(() => (last = undefined)); // the caller is told; the next one tries again
    return listed;
  };
}

/** Every certificate that this node works with, and how long each lasts. What cannot be read is left out. */
export function listCertificateExpiries(files: FilePort): Promise<readonly CertificateExpiry[]> {
  return listWith(files, { namesIn: (folder) => files.list(folder), expiryOf: (_, read) => read() });
}

interface Look {
  namesIn(folder: string): Promise<readonly string[]>;
  expiryOf(
    path: string,
    read: () => Promise<readonly CertificateExpiry[]>,
  ): Promise<readonly CertificateExpiry[]>;
}

async function listWith(files: FilePort, look: Look): Promise<readonly CertificateExpiry[]> {
  const expiry = (path: string, pemFrom: (text: string) => string): Promise<readonly CertificateExpiry[]> =>
    look.expiryOf(path, () => readExpiry(files, path, pemFrom));
  const found = await Promise.all([
    ...FOLDERS.map(async (folder) => {
      const names = (await look.namesIn(folder)).filter((name) => name.endsWith('.crt'));
      return (await Promise.all(names.map((name) => expiry(`${folder}/${name}`, (text) => text)))).flat();
    }),
    ...KUBECONFIGS.map((name) => expiry(`/etc/kubernetes/${name}`, embeddedCertificate)),
  ]);
  return found.flat();
}

async function readExpiry(
  files: FilePort,
  path: string,
  pemFrom: (text: string) => string,
): Promise<readonly CertificateExpiry[]> {
  const raw = await files.read(path, MAX_BYTES);
  if (raw === undefined) return [];
  try {
    const { validTo } = new X509Certificate(pemFrom(Buffer.from(raw).toString('utf8')));
    return [{ name: path, notAfterMs: Date.parse(validTo) }];
  } catch {
    return []; // whoever uses it says what is wrong with it
  }
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

function embeddedCertificate(kubeconfig: string): string {
  const data = /client-certificate-data:\s*(\S+)/.exec(kubeconfig)?.[1] ?? '';
  return Buffer.from(data, 'base64').toString('utf8');
}
