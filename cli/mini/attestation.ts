import { join } from 'node:path';
import type { FilePort } from '../../internal/file/index.ts';
import type { LocalCluster } from '../../internal/localmachines/index.ts';
import { MiniError } from './errors.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** File names of swtpm_localca (swtpm-localca(8)). */
const ROOT = 'swtpm-localca-rootca-cert.pem';
const ISSUER = 'issuercert.pem';

/**
 * The section `attestation` of a local cluster. The CA of its software TPMs is trusted by this cluster only. The machines prove
 * their identity, not their software: they run the kernel of the host and nothing measures their boot, so the PCRs stay zero.
 * @throws MiniError `mini-tpm-manufacturer`
 */
export async function localAttestation(
  files: Pick<FilePort, 'read'>,
  { name, paths }: Pick<LocalCluster, 'name' | 'paths'>,
): Promise<Readonly<Record<string, unknown>>> {
  const read = async (file: string): Promise<string> => {
    const path = join(paths.manufacturer, file);
    const bytes = await files.read(path, MAX_PEM_BYTES);
    if (bytes === undefined)
      throw new MiniError('mini-tpm-manufacturer', `CA certificate of the software TPMs not found: ${path}`);
    return Buffer.from(bytes).toString('utf8');
  };
  return {
    variants: ['tpm'],
    firstContact: 'endorsed',
    manufacturers: { roots: [await read(ROOT)], intermediates: [await read(ISSUER)] },
    policy: {
      name: `local-${name}`,
      profile: 'identity',
      machines: 'any-proved',
      tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
    },
  };
}
