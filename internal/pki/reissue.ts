import type { X509Certificate } from '@peculiar/x509';
import { loadX509, type X509Library } from '../crypto/index.ts';
import {
  PURPOSES,
  type CertificateSigner,
  type LeafSpec,
  type SubjectName,
  type Usage,
} from './certificate-signer.ts';

const USAGES: Readonly<Record<string, Usage>> = {
  [PURPOSES.server]: 'server',
  [PURPOSES.client]: 'client',
};

/**
 * Issues a certificate again with a later expiry: same key, subject, usages and names. Because the key stays the same,
 * one rename replaces the certificate file, and key and certificate always match.
 * @throws TypeError when the certificate contains something that a `LeafSpec` cannot express and that would be lost
 */
export async function reissueCertificate(
  certPem: string,
  signer: CertificateSigner,
  validDays: number,
): Promise<string> {
  const x509 = await loadX509();
  const before = new x509.X509Certificate(certPem);
  const issued = await signer.issue({ ...leafOf(before, x509), validDays });
  if (partsOf(new x509.X509Certificate(issued)) !== partsOf(before))
    throw new TypeError(`reissuing a certificate: unsupported subject ${before.subject}`);
  return issued;
}

/** The parts of the subject. Sorted, because other tools put the organization before the common name. */
function partsOf({ subjectName }: X509Certificate): string {
  return subjectName
    .toJSON()
    .map((part) => JSON.stringify(part))
    .toSorted()
    .join();
}

function leafOf(certificate: X509Certificate, x509: X509Library): Omit<LeafSpec, 'validDays'> {
  const field = (name: string): string | undefined => {
    const [value, ...more] = certificate.subjectName.getField(name);
    if (more.length > 0) throw new TypeError(`reissuing a certificate: several ${name} in its subject`);
    return value;
  };
  const [commonName, organization] = [field('CN'), field('O')];
  if (commonName === undefined) throw new TypeError('reissuing a certificate: no common name');
  const [usage, ...usages] = usagesOf(certificate, x509);
  if (usage === undefined) throw new TypeError('reissuing a certificate: no extended key usage');
  return {
    commonName,
    ...(organization === undefined ? {} : { organization }),
    pubKeyDer: new Uint8Array(certificate.publicKey.rawData),
    usages: [usage, ...usages],
    names: namesOf(certificate, x509),
  };
}

function usagesOf(
  certificate: X509Certificate,
  { ExtendedKeyUsageExtension }: X509Library,
): readonly Usage[] {
  const usages = certificate.getExtension(ExtendedKeyUsageExtension)?.usages ?? [];
  return usages.map((oid) => {
    const usage = USAGES[String(oid)];
    if (usage === undefined)
      throw new TypeError(`reissuing a certificate: unsupported extended key usage ${String(oid)}`);
    return usage;
  });
}

function namesOf(
  certificate: X509Certificate,
  { SubjectAlternativeNameExtension }: X509Library,
): readonly SubjectName[] {
  const names = certificate.getExtension(SubjectAlternativeNameExtension)?.names.items ?? [];
  return names.map(({ type, value }) => {
    if (type !== 'dns' && type !== 'ip' && type !== 'url')
      throw new TypeError(`reissuing a certificate: unsupported kind of name ${type}`);
    return { type, value };
  });
}
