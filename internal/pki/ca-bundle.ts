import { X509Certificate } from 'node:crypto';

/** Splits a PEM bundle into its certificates, each with a line feed at its end; [] for an empty text. */
export function certificatesIn(bundlePem: string): readonly string[] {
  return bundlePem
    .split(/(?<=-----END CERTIFICATE-----)/)
    .map((pem) => pem.trim())
    .filter((pem) => pem !== '')
    .map((pem) => `${pem}\n`);
}

/** Whether a PEM bundle contains a certificate. */
export function hasCertificate(bundlePem: string, pem: string): boolean {
  return certificatesIn(bundlePem).includes(`${pem.trim()}\n`);
}

/** Whether one of the CAs in a PEM bundle signed a certificate. Does not check dates. Throws if the bundle is damaged. */
export function isIssuedByOneOf(certificate: X509Certificate, bundlePem: string): boolean {
  return issuerIn(certificate, bundlePem) !== undefined;
}

/** The CA in a PEM bundle that signed a certificate. Does not check dates. Throws if the bundle is damaged. */
export function issuerIn(certificate: X509Certificate, bundlePem: string): string | undefined {
  return certificatesIn(bundlePem).find((pem) => {
    const ca = new X509Certificate(pem);
    return certificate.checkIssued(ca) && certificate.verify(ca.publicKey);
  });
}
