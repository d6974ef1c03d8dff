import type { FilePort } from '../../internal/file/index.ts';
import { ChartError } from './errors.ts';

/** CA bundles of Linux distributions, in the order of Go's crypto/x509. */
const FILES = [
  '/etc/ssl/certs/ca-certificates.crt', // Debian, Ubuntu, Arch
  '/etc/pki/tls/certs/ca-bundle.crt', // Fedora, RHEL
  '/etc/ssl/ca-bundle.pem', // SUSE
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', // RHEL
  '/etc/ssl/cert.pem', // Alpine, macOS
] as const;

/**
 * Path of the CA bundle for the certificates of registries. helm 3, which older bundles have, insists on TLS only when it is
 * given a CA bundle: otherwise it falls back to plain HTTP if the registry, or an attacker in between, responds in plain HTTP.
 * @throws ChartError `charts-no-ca-bundle`
 */
export async function findCaBundle(
  files: FilePort,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const named = env['SSL_CERT_FILE'];
  const candidates = named === undefined || named === '' ? FILES : [named];
  for (const path of candidates) if ((await files.stat(path)) !== undefined) return path;
  throw new ChartError('charts-no-ca-bundle', `no CA bundle found: none of ${candidates.join(', ')} exists`);
}
