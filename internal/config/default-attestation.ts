/** Kinds of evidence for which a new configuration needs no values that only the operator has. */
export const SIMPLE_VARIANTS = ['tpm', 'machine-key'] as const;
export type SimpleVariant = (typeof SIMPLE_VARIANTS)[number];

/**
 * What a new `cluster.yaml` says of evidence, written out for people to tighten: a machine with a TPM proves which machine it is,
 * one that may show a bare key shows that, and the operator vouches for the first of them by its fingerprint. Nothing about
 * software. A bare key is admitted where it was asked for only: beside TPMs it would let in whoever leaves the TPM out.
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

export const DEFAULT_ATTESTATION = attestationTemplate(['tpm']);
