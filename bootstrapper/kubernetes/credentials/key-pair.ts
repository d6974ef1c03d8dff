import { X509Certificate } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  spkiDerOf,
  type LeafSpec,
  type SubjectName,
} from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { KubernetesError } from '../errors.ts';
import { ROTATED_FILES } from './key-files.ts';
import { PATHS } from '../settings.ts';

const MAX_BYTES = 64 * 1024;

export interface CredentialPorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
}

/** What signs on a control plane: for servers, for clients, and for API servers as clients of extensions. */
export type CaName = 'servers' | 'clients' | 'front-proxy';

const KUBEADM_CA = { certFile: `${PATHS.pki}/ca.crt`, keyFile: `${PATHS.pki}/ca.key` };

/** One of those that kubeadm made on this node, that came with the role, or that took their place. */
export async function loadCa({ files, nowMs }: CredentialPorts, name: CaName): Promise<KeyCertificateSigner> {
  const { certFile, keyFile } = await caFilesOf(files, name);
  const [caPem, key] = [await readText(files, certFile), await readText(files, keyFile)];
  return new KeyCertificateSigner({ caPem, keyPem: new Secret(key), nowMs });
}

/** Where it lies. Clients have one of their own only since the keys were replaced. */
export async function caFilesOf(
  files: FilePort,
  name: CaName,
): Promise<{ readonly certFile: string; readonly keyFile: string }> {
  switch (name) {
    case 'servers':
      return KUBEADM_CA;
    case 'front-proxy':
      return { certFile: `${PATHS.pki}/front-proxy-ca.crt`, keyFile: `${PATHS.pki}/front-proxy-ca.key` };
    case 'clients': {
      const { issuerCert: certFile, issuerKey: keyFile } = ROTATED_FILES;
      return (await files.stat(certFile)) === undefined ? KUBEADM_CA : { certFile, keyFile };
    }
  }
}

/**
 * The key is on disk before the certificate: a crash between the two makes the certificate of the same key. A key that
 * cannot be read is of no use to anybody: it is made anew.
 */
export async function ensureKeyPair(
  files: FilePort,
  signer: KeyCertificateSigner,
  pair: {
    readonly keyFile: string;
    readonly certFile: string;
    readonly leaf: Omit<LeafSpec, 'pubKeyDer'>;
  },
): Promise<void> {
  const pubKeyDer = await keepKey(files, pair.keyFile);
  const leaf = { ...pair.leaf, pubKeyDer };
  const found = await files.read(pair.certFile, MAX_BYTES);
  if (found !== undefined && isIssuedTo(Buffer.from(found).toString('utf8'), leaf, signer.caPem)) return;
  const certPem = await signer.issue(leaf);
  await files.writeAtomic(pair.certFile, certPem, { mode: 0o644 });
}

/** @throws KubernetesError `kubernetes-credentials-missing` */
export async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_BYTES);
  if (bytes === undefined)
    throw new KubernetesError('kubernetes-credentials-missing', `reading ${path}: it is not there`, {
      details: { path },
    });
  return Buffer.from(bytes).toString('utf8');
}

/** A kubeconfig that names files, so that a renewed certificate is taken without a restart. */
export function kubeconfigOfFiles(of: {
  readonly server: string;
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}): string {
  const name = 'cluster';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server: of.server, 'certificate-authority': of.caFile } }],
    users: [{ name: 'node', user: { 'client-certificate': of.certFile, 'client-key': of.keyFile } }],
    contexts: [{ name, context: { cluster: name, user: 'node' } }],
    'current-context': name,
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/** Its public half. */
async function keepKey(files: FilePort, path: string): Promise<Uint8Array> {
  const found = await files.read(path, MAX_BYTES);
  if (found !== undefined)
    try {
      return pubKeyDerOf(new Secret(Buffer.from(found).toString('utf8')));
    } catch {
      await files.remove(path);
    }
  await files.createExclusive(path, generateKeyPem().reveal());
  return pubKeyDerOf(new Secret(await readText(files, path)));
}

function isIssuedTo(certPem: string, { pubKeyDer, names }: LeafSpec, caPem: string): boolean {
  if (!isIssuedBy(certPem, caPem)) return false;
  const certificate = new X509Certificate(certPem);
  const isNamed = ({ type, value }: SubjectName): boolean =>
    (type === 'ip' ? certificate.checkIP(value) : certificate.checkHost(value, { subject: 'never' })) !==
    undefined;
  return isOf(certificate, pubKeyDer) && names.every(isNamed);
}

/** Whether a certificate is this key's own. What is no certificate is nobody's. */
export function isOfKey(certPem: string, keyPem: string): boolean {
  try {
    return isOf(new X509Certificate(certPem), pubKeyDerOf(new Secret(keyPem)));
  } catch {
    return false;
  }
}

function isOf(certificate: X509Certificate, pubKeyDer: Uint8Array): boolean {
  return Buffer.compare(spkiDerOf(certificate.publicKey), pubKeyDer) === 0;
}

/** Whether this authority signed it. What is no certificate was signed by none: it is replaced. */
export function isIssuedBy(certPem: string, caPem: string): boolean {
  try {
    return new X509Certificate(certPem).verify(new X509Certificate(caPem).publicKey);
  } catch {
    return false;
  }
}
