import { attestationTemplate, SIMPLE_VARIANTS, type SimpleVariant } from '../../../internal/config/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';

/** Kinds that need reference values (minimum versions, processors): no program can know them. */
const WITH_VALUES = ['sev-snp', 'tdx', 'snp+tpm', 'tdx+tpm'];

/**
 * How the machines of a new cluster prove themselves: what the flag says, or what a person answers. A program that says nothing
 * gets TPMs alone.
 * @throws ClusterError `cluster-variant-unknown`, `cluster-variant-values`
 */
export async function chooseAttestation(
  { host }: Pick<CommandContext, 'host'>,
  flag: string | undefined,
): Promise<Readonly<Record<string, unknown>>> {
  if (flag !== undefined) return attestationTemplate(parseVariants(flag));
  if (!host.interactive) return attestationTemplate(['tpm']);
  const hasTpm = await host.confirm('Do the machines of this cluster have a TPM 2.0?', true);
  if (!hasTpm) return attestationTemplate(['machine-key']);
  const question = 'Admit machines without a TPM too? Such a machine proves nothing but a key on its disk.';
  return attestationTemplate((await host.confirm(question, false)) ? ['tpm', 'machine-key'] : ['tpm']);
}

function parseVariants(flag: string): readonly SimpleVariant[] {
  const words = flag.split(',').map((word) => word.trim());
  return words.map((word) => {
    const variant = SIMPLE_VARIANTS.find((each) => each === word);
    if (variant !== undefined) return variant;
    const code = WITH_VALUES.includes(word) ? 'cluster-variant-values' : 'cluster-variant-unknown';
    throw new ClusterError(code, `reading --attestation: ${JSON.stringify(word)}`);
  });
}
