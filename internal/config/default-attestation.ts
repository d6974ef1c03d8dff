/** The kinds of evidence that need no reference values of the operator. */
export const SIMPLE_VARIANTS = ['tpm', 'machine-key'] as const;
export type SimpleVariant = (typeof SIMPLE_VARIANTS)[number];

/**
 * The section `attestation` of a new `cluster.yaml`: a machine with a TPM proves its identity with the TPM, other machines with their key,
 * and the operator confirms the first machine by its fingerprint. Software is not attested. `machine-key` must be requested explicitly:
 * it would admit a machine that hides its TPM.
 */
export function attestationTemplate(variants: readonly SimpleVariant[]): Readonly<Record<string, unknown>> {
  return {
    variants: SIMPLE_VARIANTS.filter((each) => variants.includes(each)),
    firstContact: 'fingerprint',
    policy: {
      name: 'identity',
      profile: 'identity',
      machines: 'any-proved',
      ...(variants.includes('tpm') ? { tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' } } : {}),
    },
  };
}

/** The section for a cluster whose machines have TPMs. */
export const DEFAULT_ATTESTATION = attestationTemplate(['tpm']);
