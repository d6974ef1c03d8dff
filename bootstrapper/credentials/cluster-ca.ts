import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  type CertificateSigner,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';

/**
 * Loads the signing CA of the cluster on the node that creates the cluster, or creates this CA. The key is written
 * before the certificate. So after a crash in between, only the certificate is created again, for the same key.
 */
export async function ensureClusterCa(
  ports: { readonly files: FilePort; readonly nowMs: () => number },
  options: { readonly directory: string; readonly clusterName: string },
): Promise<CertificateSigner> {
  const { files, nowMs } = ports;
  await files.makeDirectory(options.directory);
  const keyPem = new Secret(
    await keep(files, `${options.directory}/ca.key`, () => Promise.resolve(generateKeyPem().reveal())),
  );
  const caPem = await keep(files, `${options.directory}/ca.crt`, () =>
    createCaCertPem({ commonName: `cluster ${options.clusterName}`, keyPem, nowMs: nowMs() }),
  );
  return new KeyCertificateSigner({ caPem, keyPem, nowMs });
}

/** Returns the content of a file. If the file does not exist, writes what `make` returns. */
async function keep(files: FilePort, path: string, make: () => Promise<string>): Promise<string> {
  const found = await readText(files, path);
  if (found !== undefined) return found;
  const made = await make();
  return (await files.createExclusive(path, made)) ? made : keep(files, path, make);
}
