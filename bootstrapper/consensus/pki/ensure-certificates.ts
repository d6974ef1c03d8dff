import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readText, type FilePort } from '../../../internal/file/index.ts';
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
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { ConsensusError } from '../errors.ts';
import type { KeyPairFiles } from '../consensus-layout.ts';

/** Ports (injected dependencies) for the creation of certificates. */
export type PkiPorts = Pick<SystemPorts, 'files' | 'clock'>;

/**
 * Loads a CA, or creates it. The key is written before the certificate: after a crash in between, the next
 * call creates the certificate for the existing key.
 * @throws ConsensusError `consensus-pki-missing` or `consensus-pki-damaged`
 */
export async function ensureCa(
  { files, clock }: PkiPorts,
  { certFile, keyFile }: KeyPairFiles,
  { commonName, mayCreate }: { readonly commonName: string; readonly mayCreate: boolean },
): Promise<KeyCertificateSigner> {
  if (mayCreate) await files.createExclusive(keyFile, generateKeyPem().reveal());
  const keyPem = new Secret(await requireText(files, keyFile));
  if (mayCreate) {
    const certPem = await createCaCertPem({ commonName, keyPem, nowMs: clock.nowMs() });
    await files.createExclusive(certFile, certPem, { mode: 0o644 });
  }
  const caPem = await requireText(files, certFile);
  if (!isPair(caPem, keyPem)) {
    const message = `${certFile} is damaged: it does not match the key in ${keyFile}`;
    throw new ConsensusError('consensus-pki-damaged', message, { details: { path: certFile } });
  }
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs() });
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
  const { files, clock } = ports;
  const found = keyFrom(await readText(files, at.keyFile));
  const current = await readText(files, at.certFile);
  if (found !== undefined && current !== undefined)
    if (isPair(current, found) && isUsable(current, options, clock.nowMs())) return false;
  const keyPem = found ?? generateKeyPem();
  const { signer, template, validDays } = options;
  const certPem = await signer.issue({ ...template, pubKeyDer: pubKeyDerOf(keyPem), validDays });
  if (found === undefined) await files.writeAtomic(at.keyFile, keyPem.reveal());
  await files.writeAtomic(at.certFile, certPem, { mode: 0o644 });
  return true;
}

/** @throws ConsensusError `consensus-pki-missing` */
export async function requireText(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path);
  if (text === undefined)
    throw new ConsensusError('consensus-pki-missing', `${path} is missing`, { details: { path } });
  return text;
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
function keyFrom(text: string | undefined): Secret<string> | undefined {
  if (text === undefined) return undefined;
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
