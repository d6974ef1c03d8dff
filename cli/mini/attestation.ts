import { join } from 'node:path';
import type { FilePort } from '../../internal/file/index.ts';
import type { LocalCluster } from '../../internal/localmachines/index.ts';
import { MiniError } from './errors.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** What swtpm_localca calls them (swtpm-localca(8)). */
const ROOT = 'swtpm-localca-rootca-cert.pem';
const ISSUER = 'issuercert.pem';

/**
 * The section `attestation` of a local cluster: the manufacturer of its software TPMs is trusted by this cluster and by no
 * other, and its machines prove which one they are and nothing more. Their kernel is the host's, nothing measures their
 * boot, so their PCRs start at zero; verdicts say so.
 */
export async function localAttestation(
  files: Pick<FilePort, 'read'>,
  { name, paths }: Pick<LocalCluster, 'name' | 'paths'>,
): Promise<Readonly<Record<string, unknown>>> {
  const read = async (file: string): Promise<string> => {
    const path = join(paths.manufacturer, file);
    const bytes = await files.read(path, MAX_PEM_BYTES);
    if (bytes === undefined)
      throw new MiniError('mini-tpm-manufacturer', `reading ${path}: the TPMs have no manufacturer`);
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
