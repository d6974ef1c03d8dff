import { MEASURED_VARIANTS } from '../../../internal/attestation/index.ts';
import { attestationTemplate, SIMPLE_VARIANTS, type SimpleVariant } from '../../../internal/config/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';

/** Kinds of evidence for which an operator must supply reference values, such as minimum firmware versions. */
const WITH_VALUES: readonly string[] = MEASURED_VARIANTS.filter((each) => each !== 'tpm');

/**
 * The section `attestation` of a new cluster.yaml: from the flag, else from prompts, else (without a terminal) TPMs only.
 * @throws ClusterError `cluster-variant-unknown`, `cluster-variant-values`
 */
export async function chooseAttestation(
  { host }: Pick<CommandContext, 'host'>,
  flag: string | undefined,
): Promise<Readonly<Record<string, unknown>>> {
  if (flag !== undefined) return attestationTemplate(parseVariants(flag));
  if (!host.interactive) return attestationTemplate(['tpm']);
  const hasTpm = await host.confirm('Do all machines of this cluster have a TPM 2.0?', true);
  if (!hasTpm) return attestationTemplate(['machine-key']);
  const question = 'Also allow machines without a TPM? They prove only a key on their disk.';
  return attestationTemplate((await host.confirm(question, false)) ? ['tpm', 'machine-key'] : ['tpm']);
}

function parseVariants(flag: string): readonly SimpleVariant[] {
  const words = flag.split(',').map((word) => word.trim());
  return words.map((word) => {
    const variant = SIMPLE_VARIANTS.find((each) => each === word);
    if (variant !== undefined) return variant;
    const code = WITH_VALUES.includes(word) ? 'cluster-variant-values' : 'cluster-variant-unknown';
    throw new ClusterError(code, `--attestation: unknown kind of evidence ${JSON.stringify(word)}`);
  });
}
