import { defineErrors, errorClass, fault } from '../../errors/index.ts';
import { VARIANTS } from '../verdict.ts';

/** Errors of attestation policies. */
export const policyErrors = defineErrors({
  'policy-malformed': fault.operator.usage(
    'The attestation policy has an unknown key, lacks a key, or has a malformed value.',
    'Correct the value at the path that the message names. Until then the previous policy stays active.',
  ),
  'policy-proves-nothing': fault.operator.usage(
    'The attestation policy would accept machines without comparing anything.',
    'With the profile `measured`, add at least one register that is not `warnOnly`. With `identity`, list the machines or use `any-proved`.',
  ),
  'policy-variant-unknown': fault.operator.usage(
    'An attestation variant is missing, unknown or named twice, or the policy has no section for it.',
    `Use the variants ${VARIANTS.join(', ')}, each once, and add to the policy the sections tpm, sev-snp and tdx that these variants need.`,
  ),
});

/** An attestation policy was refused. */
export class PolicyError extends errorClass(policyErrors) {}
