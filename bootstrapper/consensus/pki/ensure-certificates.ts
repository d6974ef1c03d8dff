import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  certificateTimesOf,
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  renewalTimeOf,
  spkiDerOf,
  type LeafSpec,
} from '../../../internal/pki/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { ConsensusError } from '../errors.ts';
import type { KeyPairFiles } from '../consensus-layout.ts';

const MAX_PEM_BYTES = 64 * 1024;

/** Ports (injected dependencies) for the creation of certificates. */
export interface PkiPorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
}

/**
 * Loads a CA, or creates it. The key is written before the certificate: after a crash in between, the next
 * call creates the certificate for the existing key.
 * @throws ConsensusError `consensus-pki-missing` or `consensus-pki-damaged`
 */
export async function ensureCa(
  ports: PkiPorts,
  at: KeyPairFiles,
  options: { readonly commonName: string; readonly mayCreate: boolean },
): Promise<KeyCertificateSigner> {
  if (options.mayCreate) {
    await ports.files.createExclusive(at.keyFile, generateKeyPem().reveal());
  }
  const keyPem = new Secret(await readText(ports.files, at.keyFile));
  if (options.mayCreate) {
    const certPem = await createCaCertPem({
      commonName: options.commonName,
      keyPem,
      nowMs: ports.nowMs(),
    });
    await ports.files.createExclusive(at.certFile, certPem, { mode: 0o644 });
  }
  const caPem = await readText(ports.files, at.certFile);
  if (!isPair(caPem, keyPem)) throw damaged(at.certFile, `its key is not the one in ${at.keyFile}`);
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: ports.nowMs });
}

/** The wanted content of a certificate, without its key and lifetime. */
export type LeafTemplate = Omit<LeafSpec, 'pubKeyDer' | 'validDays'>;

/**
 * Keeps a valid key and certificate, and replaces invalid ones. Replaces a missing or unreadable key, and a
 * certificate that is missing, is of another key (after a crash between the two writes) or CA, has other
 * content, or is due for renewal. A renewal keeps the key and is one rename. etcd reads both files for each
 * handshake, so it never reads a key and a certificate that do not match.
 * @returns whether anything was replaced
 */
export async function ensureLeaf(
  ports: PkiPorts,
  at: KeyPairFiles,
  options: {
    readonly signer: KeyCertificateSigner;
    readonly template: LeafTemplate;
    readonly validDays: number;
  },
): Promise<boolean> {
  const { files } = ports;
  const [keyBytes, certBytes] = [
    await files.read(at.keyFile, MAX_PEM_BYTES),
    await files.read(at.certFile, MAX_PEM_BYTES),
  ];
  const found = keyBytes === undefined ? undefined : keyFrom(textOf(keyBytes));
  if (found !== undefined && certBytes !== undefined) {
    const certPem = textOf(certBytes);
    if (isPair(certPem, found) && isUsable(certPem, options, ports.nowMs())) return false;
  }
  const keyPem = found ?? generateKeyPem();
  const { signer, template, validDays } = options;
  const certPem = await signer.issue({ ...template, pubKeyDer: pubKeyDerOf(keyPem), validDays });
  if (found === undefined) await files.writeAtomic(at.keyFile, keyPem.reveal());
  await files.writeAtomic(at.certFile, certPem, { mode: 0o644 });
  return true;
}

/** @throws ConsensusError `consensus-pki-missing` */
export async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined)
    throw new ConsensusError('consensus-pki-missing', `${path} is missing`, { details: { path } });
  return textOf(bytes);
}

function isUsable(
  certPem: string,
  options: { readonly signer: KeyCertificateSigner; readonly template: LeafTemplate },
  nowMs: number,
): boolean {
  const certificate = new X509Certificate(certPem);
  const ca = new X509Certificate(options.signer.caPem);
  const named = options.template.names.every(({ type, value }) =>
    type === 'ip' ? certificate.checkIP(value) !== undefined : certificate.checkHost(value) !== undefined,
  );
  return (
    certificate.checkIssued(ca) &&
    certificate.verify(ca.publicKey) &&
    named &&
    certificate.subject.split('\n').includes(`CN=${options.template.commonName}`) &&
    Date.parse(certificate.validFrom) <= nowMs &&
    renewalTimeOf(certificateTimesOf(certPem)) > nowMs
  );
}

/** Returns undefined if the text is not a private key. */
function keyFrom(text: string): Secret<string> | undefined {
  try {
    const keyPem = new Secret(text);
    pubKeyDerOf(keyPem);
    return keyPem;
  } catch {
    return undefined; // the caller replaces it
  }
}

/** Whether certificate and key match; false if one of them is unreadable. */
function isPair(certPem: string, keyPem: Secret<string>): boolean {
  try {
    createPrivateKey(keyPem.reveal());
    return Buffer.compare(spkiDerOf(new X509Certificate(certPem).publicKey), pubKeyDerOf(keyPem)) === 0;
  } catch {
    return false; // unreadable: the callers replace a certificate and refuse a CA
  }
}

function damaged(path: string, why: string): ConsensusError {
  return new ConsensusError('consensus-pki-damaged', `${path} is damaged: ${why}`, { details: { path } });
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
