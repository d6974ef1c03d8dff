import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { consensusLayout, ETCD_USERS } from '../consensus/index.ts';
import { CLIENTS, KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { PLACES } from './places.ts';

const MAX_BYTES = 256 * 1024;
const KUBECONFIGS = ['admin.conf'];
/** How long a listing holds: dates of certificates are no news, and reading them all is most of what an idle agent does. */
const FRESH_MS = 60_000;
const consensus = consensusLayout(PLACES.state);
const FOLDERS = [
  PLACES.credentials,
  folderOf(KUBELET_FILES.ca),
  `${PLACES.state}/etcd/pki`,
  ...[consensus.clientsCa.certFile, consensus.peersCa.certFile].map(folderOf),
  ...ETCD_USERS.map((name) => consensus.user(name).folder),
  PLACES.ca,
  PATHS.pki,
  ...Object.values(CLIENTS).map(({ folder }) => folder),
];

export interface CertificateExpiry {
  /** Its file, so that an operator finds it. */
  readonly name: string;
  readonly notAfterMs: number;
}

/** Lists the certificates again when the last listing is a minute old. */
export function createCertificateLister(
  files: FilePort,
  clock: Pick<Clock, 'monotonicMs'>,
): () => Promise<readonly CertificateExpiry[]> {
  let last: { readonly atMs: number; readonly listed: Promise<readonly CertificateExpiry[]> } | undefined;
  return () => {
    const nowMs = clock.monotonicMs();
    if (last !== undefined && nowMs - last.atMs < FRESH_MS) return last.listed;
    const listed = listCertificates(files);
    last = { atMs: nowMs, listed };
    listed.catch(() => (last = undefined)); // the caller is told; the next one tries again
    return listed;
  };
}

/** Every certificate that this node works with, and how long each lasts. What can't be read is left out. */
export async function listCertificates(files: FilePort): Promise<readonly CertificateExpiry[]> {
  const found = await Promise.all([
    ...FOLDERS.map(async (folder) => {
      const names = (await files.list(folder)).filter((name) => name.endsWith('.crt'));
      return (
        await Promise.all(names.map((name) => expiryOf(files, `${folder}/${name}`, (text) => text)))
      ).flat();
    }),
    ...KUBECONFIGS.map((name) => expiryOf(files, `/etc/kubernetes/${name}`, embeddedCertificate)),
  ]);
  return found.flat();
}

async function expiryOf(
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
