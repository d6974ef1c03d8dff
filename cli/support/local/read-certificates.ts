import { X509Certificate } from 'node:crypto';
import type { LocalFacts } from '../../../internal/doctor/index.ts';
import { readText, type FilePort } from '../../../internal/file/index.ts';

/** Directories with certificates of a node, and how many levels of directories below have some. */
const TREES = [
  { path: '/var/lib/cluster/credentials', depth: 0 },
  { path: '/var/lib/cluster/ca', depth: 0 },
  { path: '/etc/kubernetes/pki', depth: 0 },
  { path: '/var/lib/cluster/consensus', depth: 3 },
  { path: '/var/lib/cluster/etcd-state', depth: 1 },
  { path: '/var/lib/cluster/etcd-kubernetes', depth: 1 },
];
/** The data of etcd has no certificates, and many files. */
const SKIPPED = /^(data|recovery)$/;
const MAX_CERTIFICATES = 256;
const MAX_BYTES = 256 * 1024;

/** When the certificates on the disk of this machine expire. Files that are no certificate are left out. */
export async function readCertificates(files: FilePort): Promise<LocalFacts['certificates']> {
  const found = await Promise.all(TREES.map(({ path, depth }) => readTree(files, path, depth)));
  return found.flat().slice(0, MAX_CERTIFICATES);
}

async function readTree(files: FilePort, path: string, depth: number): Promise<LocalFacts['certificates']> {
  const names = await files.list(path).catch(() => []); // the reason is listed when the file itself is collected
  const found = names
    .filter((name) => !SKIPPED.test(name))
    .map(async (name) => {
      const child = `${path}/${name}`;
      if (name.endsWith('.crt')) return readCertificate(files, child);
      return depth > 0 ? readTree(files, child, depth - 1) : [];
    });
  return (await Promise.all(found)).flat();
}

async function readCertificate(files: FilePort, name: string): Promise<LocalFacts['certificates']> {
  try {
    const text = (await readText(files, name, MAX_BYTES)) ?? '';
    return [{ name, notAfterMs: Date.parse(new X509Certificate(text).validTo) }];
  } catch {
    return []; // the program that uses the certificate reports the error
  }
}
