import { MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
  type ValidatorDependencies,
} from '../../internal/attestation/policy/index.ts';
import {
  endorsementKeyIdIn,
  type Policy,
  type Validator,
  type Variant,
} from '../../internal/attestation/index.ts';
import type { EndorsementTrust } from '../../internal/attestation/enrolment/index.ts';
import { attestationSettings, type ClusterConfig } from '../../internal/config/index.ts';

/** The attestation settings of the configuration, for machines that join. */
export interface ActiveAttestation {
  /** Decides only which software is accepted. `machines` and `join.policy` decide later which machines may join. */
  readonly policy: Policy;
  /** The machines that may be members; `any` leaves the decision to `join.policy`. */
  readonly machines: 'any' | ReadonlySet<string>;
  /** Trusted manufacturers and endorsement keys, including those of the inventory. */
  readonly endorsements: EndorsementTrust;
  /** Identities in the inventory, which operators vouch for. */
  readonly inventory: ReadonlySet<string>;
  /** The PCR that shows which cluster a machine is bound to. */
  readonly lockPcr: number;
  readonly variants: readonly [Variant, ...Variant[]];
}

/**
 * The attestation settings of a configuration. The attestation key of a joining machine is unknown at first: the
 * session ties the key to the TPM of the machine. So unknown keys may sign (`enrolling`), and the list of machines is
 * checked afterwards. The rest of the policy is enforced before the first call is served. Throws if the configuration
 * is unusable.
 */
export function readAttestation(config: ClusterConfig): ActiveAttestation {
  const { policyInput, trust, lockPcr, variants } = attestationSettings(config.attestation);
  const written = parsePolicy(policyInput);
  const listed = config.join.inventory.flatMap(({ identity }) => endorsementKeyIdIn(identity) ?? []);
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

/**
 * One validator for each accepted variant of evidence. The identity of a machine that has only a key is
 * unproved.
 */
export function joinValidators(
  variants: ActiveAttestation['variants'],
): readonly [Validator, ...Validator[]] {
  const dependencies: ValidatorDependencies = {
    ...standardValidators({ ownerKeys: [] }),
    'machine-key': () => new MachineKeyValidator({ fingerprints: 'any' }),
  };
  return createValidators(variants, dependencies);
}
