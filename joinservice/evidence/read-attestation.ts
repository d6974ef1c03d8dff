import { MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
  type ValidatorDependencies,
} from '../../internal/attestation/policy/index.ts';
import type { Policy, Validator, Variant } from '../../internal/attestation/index.ts';
import type { EndorsementTrust } from '../../internal/attestation/enrolment/index.ts';
import { attestationSettings, type ClusterConfig } from '../../internal/config/index.ts';

/** What the operators' document says about evidence, as joining takes it. */
export interface ActiveAttestation {
  /** Which software passes. Which machine it is, is found out in the session and decided by `join.policy`. */
  readonly policy: Policy;
  /** Machines that may be members at all; `any` leaves it to `join.policy`. */
  readonly machines: 'any' | ReadonlySet<string>;
  /** Whose hardware is vouched for: manufacturers, keys, and everybody in the inventory. */
  readonly endorsements: EndorsementTrust;
  /** Machines that operators named in the inventory: their word counts where nobody else vouches. */
  readonly inventory: ReadonlySet<string>;
  /** The PCR that shows which cluster a machine is bound to. */
  readonly lockPcr: number;
  readonly variants: readonly [Variant, ...Variant[]];
}

/**
 * A machine that joins is unknown: its attestation key is tied to its TPM in the session itself, so unknown keys may sign
 * (`enrolling`) and the list of machines is looked at afterwards. Everything else of the policy holds before one call is
 * served. Throws when the document is not usable.
 */
export function readAttestation(config: ClusterConfig): ActiveAttestation {
  const { policyInput, trust, lockPcr, variants } = attestationSettings(config.attestation);
  const written = parsePolicy(policyInput);
  const listed = config.join.inventory.flatMap(({ identity }) =>
    identity.startsWith('tpm-ek:') ? [identity.slice('tpm-ek:'.length)] : [],
  );
  return {
    policy: {
      ...written,
      machines: 'any',
      ...(written.tpm === undefined ? {} : { tpm: { ...written.tpm, attestationKeys: 'enrolling' } }),
    },
    machines: typeof written.machines === 'string' ? 'any' : written.machines,
    endorsements: { ...trust, pinnedKeys: new Set([...trust.pinnedKeys, ...listed]) },
    inventory: new Set(config.join.inventory.map(({ identity }) => identity)),
    lockPcr,
    variants,
  };
}

/** One validator for each kind of evidence that machines may show. A machine that is nothing but its key is unproved. */
export function joinValidators(
  variants: ActiveAttestation['variants'],
): readonly [Validator, ...Validator[]] {
  const makers: ValidatorDependencies = {
    ...standardValidators({ ownerKeys: [] }),
    'machine-key': () => new MachineKeyValidator({ fingerprints: 'any' }),
  };
  return createValidators(variants, makers);
}
