import { defineErrors, errorClass } from '../../errors/index.ts';

export const policyErrors = defineErrors({
  'policy-malformed': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The attestation policy has an unknown key, a missing one, or a value of another form.',
    fix: 'Correct the path named in the message. A policy that was in force before stays in force.',
  },
  'policy-proves-nothing': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The attestation policy would accept machines without comparing anything.',
    fix: 'Under the profile `measured` name at least one register that is not `warnOnly`; under `identity` name the machines, or `any-proved`.',
  },
  'policy-variant-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'An attestation variant is missing, unknown, named twice, or the policy has no section for it.',
    fix: 'Variants are tpm, sev-snp, tdx, snp+tpm, tdx+tpm, owner-key and machine-key; each of them that is in use needs its section in the policy.',
  },
});

export type PolicyErrorCode = keyof typeof policyErrors;

export class PolicyError extends errorClass(policyErrors) {}
