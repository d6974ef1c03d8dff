import type { X509Certificate } from '@peculiar/x509';
import { webcrypto, X509Certificate as NodeCertificate } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from '../clock/index.ts';
import { loadX509 } from '../crypto/index.ts';
import type { Secret } from '../secret/index.ts';
import { authorityKeyIdentifierOf, pem, PURPOSES, randomSerial } from './certificate-signer.ts';
import { webPrivateKey } from './keys.ts';

/** A CA with its key. PEM. */
interface CaPair {
  readonly caPem: string;
  readonly keyPem: Secret<string>;
}

/**
 * Creates a cross-certificate (PEM): name and key of a new CA, signed by the CA that it replaces. Clients that trust
 * only the replaced CA accept a server that sends the cross-certificate after its own certificate. The
 * cross-certificate is valid for server certificates only, and expires with the first of both CAs.
 * @throws RangeError unless `maySignCas(replaced)`: every client would refuse the chain
 */
export async function createCrossCertPem(newCaPem: string, replaced: CaPair, nowMs: number): Promise<string> {
  if (!(await maySignCas(replaced.caPem))) throw new RangeError('the replaced CA may not sign other CAs');
  const x509 = await loadX509();
  const [ca, issuer] = [new x509.X509Certificate(newCaPem), new x509.X509Certificate(replaced.caPem)];
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: randomSerial(),
      issuer: issuer.subject,
      subject: ca.subject,
      notBefore: new Date(nowMs - CLOCK_TOLERANCE_MS),
      notAfter: new Date(Math.min(ca.notAfter.getTime(), issuer.notAfter.getTime())),
      publicKey: ca.publicKey,
      signingKey: webPrivateKey(replaced.keyPem),
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
        // Before the first rotation, the replaced CA also signs client certificates. This extension prevents that
        // client certificates of the new CA are accepted through the replaced CA.
        new x509.ExtendedKeyUsageExtension([PURPOSES.server]),
        new x509.SubjectKeyIdentifierExtension(await subjectKeyIdOf(ca), false),
        await authorityKeyIdentifierOf(issuer),
      ],
    },
    webcrypto,
  );
  return pem(certificate);
}

/** Whether clients accept a CA that this CA has signed. CAs of earlier versions permit end-entity certificates only. */
export async function maySignCas(caPem: string): Promise<boolean> {
  const { BasicConstraintsExtension, X509Certificate: Certificate } = await loadX509();
  const constraints = new Certificate(caPem).getExtension(BasicConstraintsExtension);
  return constraints?.ca === true && constraints.pathLength !== 0;
}

/**
 * Whether a certificate has the name and the key of the next CA and was signed by the previous CA; false if it cannot
 * be parsed.
 */
export function isCrossCertificate(
  crossPem: string,
  { previousPem, nextPem }: { readonly previousPem: string; readonly nextPem: string },
): boolean {
  try {
    const cross = new NodeCertificate(crossPem);
    const [previous, next] = [new NodeCertificate(previousPem), new NodeCertificate(nextPem)];
    return (
      cross.subject === next.subject &&
      cross.publicKey.equals(next.publicKey) &&
      cross.checkIssued(previous) &&
      cross.verify(previous.publicKey)
    );
  } catch {
    return false;
  }
}

async function subjectKeyIdOf(ca: X509Certificate): Promise<string> {
  const { SubjectKeyIdentifierExtension } = await loadX509();
  const own = ca.getExtension(SubjectKeyIdentifierExtension);
  if (own === null) throw new RangeError('a CA certificate with a key identifier expected');
  return own.keyId;
}
