import { X509Certificate } from 'node:crypto';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import {
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  spkiDerOf,
  type LeafSpec,
  type SubjectName,
} from '../../../internal/pki/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { KubernetesError } from '../errors.ts';
import { ROTATED_FILES } from './key-files.ts';
import { PATHS } from '../settings.ts';

/** Ports (injected dependencies) for the creation of certificates. */
export type CredentialPorts = Pick<SystemPorts, 'files' | 'clock'>;

/**
 * The CAs of a control plane: `servers` and `clients` of Kubernetes, and `front-proxy` for API servers as
 * clients of extension API servers.
 */
export type CaName = 'servers' | 'clients' | 'front-proxy';

/** Paths of a certificate and its key. */
interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

const KUBEADM_CA: KeyPairFiles = { certFile: `${PATHS.pki}/ca.crt`, keyFile: `${PATHS.pki}/ca.key` };

/** Loads a CA of this control plane. @throws KubernetesError `kubernetes-credentials-missing` */
export async function loadCa({ files, clock }: CredentialPorts, name: CaName): Promise<KeyCertificateSigner> {
  const { certPem: caPem, keyPem } = await readKeyPair(files, await caFilesOf(files, name));
  const crossPem = name === 'servers' ? await readText(files, ROTATED_FILES.serversCross) : undefined;
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs(), crossPem });
}

/** Reads a certificate and its key, PEM. @throws KubernetesError `kubernetes-credentials-missing` */
export async function readKeyPair(
  files: FilePort,
  { certFile, keyFile }: KeyPairFiles,
): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
  const certPem = await requireText(files, certFile);
  return { certPem, keyPem: new Secret(await requireText(files, keyFile)) };
}

/** The CAs with which programs of a control plane verify API servers and kubelets, PEM; undefined before the first CA exists. */
export async function findServersTrust(files: FilePort): Promise<string | undefined> {
  return (
    (await readText(files, ROTATED_FILES.serversTrustBundle)) ?? (await readText(files, KUBEADM_CA.certFile))
  );
}

/** Like `findServersTrust()`. @throws KubernetesError `kubernetes-credentials-missing` */
export async function readServersTrust(files: FilePort): Promise<string> {
  return (await findServersTrust(files)) ?? requireText(files, KUBEADM_CA.certFile);
}

/** Paths of a CA. Before the first key rotation, the Kubernetes CA is also the CA of clients. */
export async function caFilesOf(files: FilePort, name: CaName): Promise<KeyPairFiles> {
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
 * Creates a key and its certificate unless valid ones exist. The key is written first: after a crash in
 * between, the next call creates the certificate for the existing key. An unreadable key is replaced.
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
  const pubKeyDer = await ensureKey(files, pair.keyFile);
  const leaf = { ...pair.leaf, pubKeyDer };
  const found = await readText(files, pair.certFile);
  if (found !== undefined && isIssuedTo(found, leaf, signer.caPem)) return;
  const certPem = await signer.issue(leaf);
  await files.writeAtomic(pair.certFile, certPem, { mode: 0o644 });
}

/** @throws KubernetesError `kubernetes-credentials-missing` */
export async function requireText(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path);
  if (text === undefined)
    throw new KubernetesError('kubernetes-credentials-missing', `${path} not found`, { details: { path } });
  return text;
}

/** Builds a kubeconfig (JSON) that refers to files, so that clients reload renewed certificates. */
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

/** Creates a key unless a readable key exists. @returns the key's SubjectPublicKeyInfo, DER */
async function ensureKey(files: FilePort, path: string): Promise<Uint8Array> {
  const found = await readText(files, path);
  if (found !== undefined)
    try {
      return pubKeyDerOf(new Secret(found));
    } catch {
      await files.remove(path);
    }
  await files.createExclusive(path, generateKeyPem().reveal());
  return pubKeyDerOf(new Secret(await requireText(files, path)));
}

function isIssuedTo(certPem: string, { pubKeyDer, names }: LeafSpec, caPem: string): boolean {
  if (!isIssuedBy(certPem, caPem)) return false;
  const certificate = new X509Certificate(certPem);
  const isNamed = ({ type, value }: SubjectName): boolean =>
    (type === 'ip' ? certificate.checkIP(value) : certificate.checkHost(value, { subject: 'never' })) !==
    undefined;
  return isOf(certificate, pubKeyDer) && names.every(isNamed);
}

/** Whether certificate and key match; false if one of them is unreadable. */
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

/** Whether this CA signed the certificate; false for an unreadable one. */
export function isIssuedBy(certPem: string, caPem: string): boolean {
  try {
    return new X509Certificate(certPem).verify(new X509Certificate(caPem).publicKey);
  } catch {
    return false;
  }
}
