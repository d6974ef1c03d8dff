import { createHash } from 'node:crypto';
import type { Variant } from '../attestation/index.ts';
import type { EndorsementTrust } from '../attestation/enrolment/index.ts';
import { certificatesIn, KEYS_ONLY_POLICY, type AttestationConfig } from './attestation-schema.ts';

/** The section `attestation` of `cluster.yaml`, converted for the code that uses it. */
export interface AttestationSettings {
  /** For `createValidators`; never empty. */
  readonly variants: readonly [Variant, ...Variant[]];
  /**
   * For `PolicyStore` and `parsePolicy`. Unparsed, so that the hash of the policy is the same on all
   * machines.
   */
  readonly policyInput: unknown;
  /** For `verifyEndorsement`. */
  readonly trust: EndorsementTrust;
  readonly firstContact: 'endorsed' | 'fingerprint';
  readonly lockPcr: number;
}

/** Converts a validated section. */
export function attestationSettings(config: AttestationConfig): AttestationSettings {
  const { variants, policy, firstContact, lockPcr, manufacturers } = config;
  const [first, ...others] = variants;
  if (first === undefined) throw new RangeError('an attestation section without a variant');
  const roots = manufacturers.roots.flatMap(certificatesIn);
  return {
    variants: [first, ...others],
    policyInput: policy ?? KEYS_ONLY_POLICY,
    trust: {
      roots: new Set(roots.map((der) => createHash('sha256').update(der).digest('hex'))),
      authorities: [...roots, ...manufacturers.intermediates.flatMap(certificatesIn)],
      pinnedKeys: new Set(manufacturers.endorsementKeys),
    },
    firstContact,
    lockPcr,
  };
}
