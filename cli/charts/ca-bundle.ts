import type { FilePort } from '../../internal/file/index.ts';
import { ChartError } from './errors.ts';

/** Where distributions keep the authorities they trust, as Go's crypto/x509 knows them. */
const FILES = [
  '/etc/ssl/certs/ca-certificates.crt', // Debian, Ubuntu, Arch
  '/etc/pki/tls/certs/ca-bundle.crt', // Fedora, RHEL
  '/etc/ssl/ca-bundle.pem', // SUSE
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', // RHEL
  '/etc/ssl/cert.pem', // Alpine, macOS
] as const;

/**
 * The file of authorities that a registry's certificate must come from. helm 3 is told it by name, because only then it
 * holds on to TLS: by itself it goes on without when a registry, or whoever is in between, answers in plain HTTP.
 * @throws ChartError `charts-no-ca-bundle`
 */
export async function findCaBundle(
  files: FilePort,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const named = env['SSL_CERT_FILE'];
  const candidates = named === undefined || named === '' ? FILES : [named];
  for (const path of candidates) if ((await files.stat(path)) !== undefined) return path;
  throw new ChartError(
    'charts-no-ca-bundle',
    `no trusted certificate authorities found: none of ${candidates.join(', ')} exists`,
  );
}
