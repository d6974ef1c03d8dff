import { X509Certificate } from 'node:crypto';
import { z } from 'zod';

const MAX_CHARS = 32 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** CA certificates in a configuration, PEM. A private key must not get there by mistake. */
export const caPem = z
  .string()
  .max(MAX_CHARS)
  .refine(areCertificates, 'certificates only, as PEM (`-----BEGIN CERTIFICATE-----`)');

function areCertificates(text: string): boolean {
  const found = text.match(CERTIFICATE) ?? [];
  if (found.length === 0 || text.replace(CERTIFICATE, '').trim() !== '') return false;
  return found.every((pem) => {
    try {
      return new X509Certificate(pem).raw.length > 0;
    } catch {
      return false;
    }
  });
}
