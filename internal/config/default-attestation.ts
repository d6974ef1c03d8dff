/**
 * What a new `cluster.yaml` says, written out for people to tighten: a machine with a TPM proves which machine it is, one
 * without shows its key, and the operator vouches for the first of them by its fingerprint. Nothing about software.
 */
export const DEFAULT_ATTESTATION = {
  variants: ['tpm', 'machine-key'],
  firstContact: 'fingerprint',
  policy: {
    name: 'identity',
    profile: 'identity',
    machines: 'any-proved',
    tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
  },
} as const;
