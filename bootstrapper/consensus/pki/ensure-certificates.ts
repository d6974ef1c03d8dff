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

export interface PkiPorts {
  readonly files: FilePort;
  readonly nowMs: () => number;
}

/**
 * Loads an authority, or makes it. The key is on disk before the certificate: a crash between the two leaves a key
 * that nothing was signed with, and the certificate is made from it.
 */
export async function ensureCa(
  ports: PkiPorts,
  at: KeyPairFiles,
  options: { readonly commonName: string; readonly mayCreate: boolean },
): Promise<KeyCertificateSigner> {
  if (options.mayCreate) {
    const fresh = generateKeyPem().reveal();
    await ports.files.createExclusive(at.keyFile, fresh);
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
  if (!isPair(caPem, keyPem)) throw damaged(at.certFile, `its key is not that of ${at.keyFile}`);
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: ports.nowMs });
}

/** What a leaf certificate is to be; the key is ours. */
export type LeafTemplate = Omit<LeafSpec, 'pubKeyDer' | 'validDays'>;

/**
 * Loads a key and its certificate, or makes what is not right: a key that is missing or none, a certificate that is
 * missing, for another key (a crash between the two writes), of another CA, that does not say what it should, or that
 * has little time left. A key that is right stays, so that a renewal is one rename and etcd, which reads both files for
 * each handshake, never sees a torn pair.
 * @returns whether anything was made anew
 */
export async function ensureLeaf(
  ports: PkiPorts,
  at: KeyPairFiles,
  options: { readonly signer: KeyCertificateSigner; readonly wish: LeafTemplate; readonly validDays: number },
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
  const { signer, wish, validDays } = options;
  const certPem = await signer.issue({ ...wish, pubKeyDer: pubKeyDerOf(keyPem), validDays });
  if (found === undefined) await files.writeAtomic(at.keyFile, keyPem.reveal());
  await files.writeAtomic(at.certFile, certPem, { mode: 0o644 });
  return true;
}

export async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined)
    throw new ConsensusError('consensus-pki-missing', `reading ${path}: it is gone`, { details: { path } });
  return textOf(bytes);
}

function isUsable(
  certPem: string,
  options: { readonly signer: KeyCertificateSigner; readonly wish: LeafTemplate },
  nowMs: number,
): boolean {
  const certificate = new X509Certificate(certPem);
  const ca = new X509Certificate(options.signer.caPem);
  const named = options.wish.names.every(({ type, value }) =>
    type === 'ip' ? certificate.checkIP(value) !== undefined : certificate.checkHost(value) !== undefined,
  );
  return (
    certificate.checkIssued(ca) &&
    certificate.verify(ca.publicKey) &&
    named &&
    certificate.subject.split('\n').includes(`CN=${options.wish.commonName}`) &&
    Date.parse(certificate.validFrom) <= nowMs &&
    renewalTimeOf(certificateTimesOf(certPem)) > nowMs
  );
}

/** undefined: what is there is no key that certificates can be made for. */
function keyFrom(text: string): Secret<string> | undefined {
  try {
    const keyPem = new Secret(text);
    pubKeyDerOf(keyPem);
    return keyPem;
  } catch {
    return undefined; // garbage is replaced
  }
}

/** false also for what is no certificate or no key at all. */
function isPair(certPem: string, keyPem: Secret<string>): boolean {
  try {
    createPrivateKey(keyPem.reveal());
    return Buffer.compare(spkiDerOf(new X509Certificate(certPem).publicKey), pubKeyDerOf(keyPem)) === 0;
  } catch {
    return false; // garbage is "no pair": callers replace a leaf and refuse an authority
  }
}

function damaged(path: string, why: string): ConsensusError {
  return new ConsensusError('consensus-pki-damaged', `reading ${path}: ${why}`, { details: { path } });
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
