import 'reflect-metadata';
import {
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  SubjectAlternativeNameExtension,
  X509Certificate,
} from '@peculiar/x509';
import type { LeafSpec, CertificateSigner, SubjectName, Usage } from './certificate-signer.ts';

const USAGES: Readonly<Record<string, Usage>> = {
  [ExtendedKeyUsage.serverAuth]: 'server',
  [ExtendedKeyUsage.clientAuth]: 'client',
};

/**
 * The same certificate for longer: same key, subject, purposes and names. The key stays, so that the pair is never torn:
 * one file changes, by one rename.
 * @throws TypeError when it says something that this PKI cannot say; it would be lost
 */
export async function reissueCertificate(
  certPem: string,
  signer: CertificateSigner,
  validDays: number,
): Promise<string> {
  const before = new X509Certificate(certPem);
  const issued = await signer.issue({ ...leafOf(before), validDays });
  if (partsOf(new X509Certificate(issued)) !== partsOf(before))
    throw new TypeError(`a certificate with more in its subject: ${before.subject}`);
  return issued;
}

/** In one order: others put the organization before the name. */
function partsOf({ subjectName }: X509Certificate): string {
  return subjectName
    .toJSON()
    .map((part) => JSON.stringify(part))
    .toSorted()
    .join();
}

function leafOf(certificate: X509Certificate): Omit<LeafSpec, 'validDays'> {
  const field = (name: string): string | undefined => {
    const [value, ...more] = certificate.subjectName.getField(name);
    if (more.length > 0) throw new TypeError(`a certificate with several ${name} in its subject`);
    return value;
  };
  const [commonName, organization] = [field('CN'), field('O')];
  if (commonName === undefined) throw new TypeError('a certificate without a common name');
  const [usage, ...usages] = usagesOf(certificate);
  if (usage === undefined) throw new TypeError('a certificate without a purpose');
  return {
    commonName,
    ...(organization === undefined ? {} : { organization }),
    pubKeyDer: new Uint8Array(certificate.publicKey.rawData),
    usages: [usage, ...usages],
    names: namesOf(certificate),
  };
}

function usagesOf(certificate: X509Certificate): readonly Usage[] {
  const usages = certificate.getExtension(ExtendedKeyUsageExtension)?.usages ?? [];
  return usages.map((oid) => {
    const usage = USAGES[String(oid)];
    if (usage === undefined) throw new TypeError(`a certificate for the purpose ${String(oid)}`);
    return usage;
  });
}

function namesOf(certificate: X509Certificate): readonly SubjectName[] {
  const names = certificate.getExtension(SubjectAlternativeNameExtension)?.names.items ?? [];
  return names.map(({ type, value }) => {
    if (type !== 'dns' && type !== 'ip' && type !== 'url')
      throw new TypeError(`a certificate with a name of kind ${type}`);
    return { type, value };
  });
}
