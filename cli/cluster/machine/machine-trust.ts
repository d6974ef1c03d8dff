import {
  withLockRegister,
  type Collateral,
  type LockExpectation,
  type Policy,
  type Validator,
} from '../../../internal/attestation/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../../internal/attestation/policy/index.ts';
import type { EvidenceRules } from '../../../internal/atls/index.ts';
import type { AttestationSettings } from '../../../internal/config/index.ts';
import type { MachineRecord } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';

export interface MachineTrustOptions {
  readonly settings: AttestationSettings;
  readonly collateral: Collateral;
  /** "sha256:HEX", as somebody named it or an earlier run saw it. */
  readonly fingerprint: string | undefined;
  /** The machine that the init was begun with. */
  readonly known: MachineRecord | undefined;
  readonly lock: LockExpectation;
}

/** The attestation key of a TPM, and the endorsement key that activation tied it to. */
export interface EnrolledKey {
  readonly attestationKey: string;
  readonly endorsementKey?: string;
}

/**
 * What evidence of the first machine counts, for each connection anew:
 *
 *     first contact   an unknown attestation key may quote; which machine that is and its lock are judged inside the
 *                     session (`verify-machine.ts`), before anything is sent
 *     from then on    that attestation key, that kind of evidence, and the lock as it must be now
 */
export class MachineTrust {
  readonly policy: Policy;
  readonly settings: AttestationSettings;
  readonly #options: MachineTrustOptions;
  #contact: 'first' | 'known';
  #key: EnrolledKey | undefined;
  #lock: LockExpectation;

  constructor(options: MachineTrustOptions) {
    const { settings, known, lock } = options;
    this.settings = settings;
    this.policy = parsePolicy(settings.policyInput);
    this.#options = options;
    this.#lock = lock;
    this.#contact = known === undefined ? 'first' : 'known';
    const { attestationKey, endorsementKey } = known ?? {};
    if (attestationKey !== undefined)
      this.#key = { attestationKey, ...(endorsementKey === undefined ? {} : { endorsementKey }) };
  }

  /** A machine that showed a TPM once cannot come back with less. */
  get accepts(): readonly [Validator, ...Validator[]] {
    const { settings, known, fingerprint } = this.#options;
    const usable = settings.variants
      .filter((variant) => known === undefined || variant === known.variant)
      .filter((variant) => variant !== 'machine-key' || fingerprint !== undefined);
    const [first, ...others] = usable;
    if (first === undefined) {
      throw new ClusterError(
        'cluster-evidence-unknown',
        `choosing what counts as evidence: none of ${settings.variants.join(', ')} can be judged for this machine`,
      );
    }
    const machineKeys = new Set(fingerprint === undefined ? [] : [fingerprint.replace(/^sha256:/, '')]);
    return createValidators([first, ...others], standardValidators({ ownerKeys: [], machineKeys }));
  }

  /** Asked by attested TLS for each connection. */
  rules(): EvidenceRules {
    const { collateral } = this.#options;
    if (this.#contact === 'first')
      return { policy: enrolling(this.policy), collateral: withKeys(collateral, []) };
    return {
      policy: withLockRegister(enrolled(this.policy), this.settings.lockPcr, this.#lock),
      collateral: withKeys(collateral, this.#key === undefined ? [] : [this.#key]),
    };
  }

  get isFirstContact(): boolean {
    return this.#contact === 'first';
  }

  get lock(): LockExpectation {
    return this.#lock;
  }

  /** What the lock register must show from the next connection on. */
  expectLock(lock: LockExpectation): void {
    this.#lock = lock;
  }

  /** The machine has been judged: from now on it is this one, with this key if it has a TPM. */
  pinMachine(key: EnrolledKey | undefined): void {
    this.#contact = 'known';
    this.#key = key;
  }
}

/** First contact: the key may be unknown and the machine unproved, for as long as nothing is sent to it. */
function enrolling(policy: Policy): Policy {
  if (policy.tpm === undefined) return policy;
  return { ...policy, machines: 'any', tpm: { ...policy.tpm, attestationKeys: 'enrolling' } };
}

function enrolled(policy: Policy): Policy {
  if (policy.tpm === undefined) return policy;
  return { ...policy, tpm: { ...policy.tpm, attestationKeys: 'enrolled' } };
}

function withKeys(collateral: Collateral, keys: readonly EnrolledKey[]): Collateral {
  const attestationKeys = new Map(
    keys.map(({ attestationKey, endorsementKey }) => [
      attestationKey,
      endorsementKey === undefined ? {} : { endorsementKeyId: endorsementKey },
    ]),
  );
  return { ...collateral, tpm: { attestationKeys } };
}
