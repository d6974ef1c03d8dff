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

/** The facts that decide which evidence is accepted. */
export interface MachineTrustOptions {
  readonly settings: AttestationSettings;
  readonly collateral: Collateral;
  /** Expected fingerprint, "sha256:HEX"; undefined when the evidence alone identifies the machine. */
  readonly fingerprint: string | undefined;
  /** The machine with which the init was started. */
  readonly known: MachineRecord | undefined;
  readonly lock: LockExpectation;
}

/** The attestation key of a TPM, and the endorsement key that credential activation bound it to. */
export interface EnrolledKey {
  readonly attestationKey: string;
  readonly endorsementKey?: string;
}

/**
 * Decides for each connection which evidence of the first machine is accepted:
 *
 *     first contact   any attestation key; the machine and its node lock (a PCR that shows to which cluster
 *                     a machine belongs) are verified within the session (`verify-machine.ts`), before
 *                     anything is sent
 *     afterwards      only that attestation key and kind of evidence, and the expected node lock
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

  /** Validators for the next connection. A machine that showed a TPM once must show it again. */
  get accepts(): readonly [Validator, ...Validator[]] {
    const { settings, known, fingerprint } = this.#options;
    const usable = settings.variants
      .filter((variant) => known === undefined || variant === known.variant)
      .filter((variant) => variant !== 'machine-key' || fingerprint !== undefined);
    const [first, ...others] = usable;
    if (first === undefined) {
      throw new ClusterError(
        'cluster-evidence-unknown',
        `no accepted evidence for this machine among ${settings.variants.join(', ')}`,
      );
    }
    const machineKeys = new Set(fingerprint === undefined ? [] : [fingerprint.replace(/^sha256:/, '')]);
    return createValidators([first, ...others], standardValidators({ ownerKeys: [], machineKeys }));
  }

  /** Policy and collateral for the next connection of attested TLS. */
  rules(): EvidenceRules {
    const { collateral } = this.#options;
    if (this.#contact === 'first')
      return { policy: enrolling(this.policy), collateral: withKeys(collateral, []) };
    return {
      policy: withLockRegister(enrolled(this.policy), this.settings.lockPcr, this.#lock),
      collateral: withKeys(collateral, this.#key === undefined ? [] : [this.#key]),
    };
  }

  /** Whether the machine has not been verified yet. */
  get isFirstContact(): boolean {
    return this.#contact === 'first';
  }

  /** Expected value of the lock PCR. */
  get lock(): LockExpectation {
    return this.#lock;
  }

  /** Sets the expected value of the lock PCR from the next connection on. */
  expectLock(lock: LockExpectation): void {
    this.#lock = lock;
  }

  /** After verification: accepts only this machine from now on, with this key if it has a TPM. */
  pinMachine(key: EnrolledKey | undefined): void {
    this.#contact = 'known';
    this.#key = key;
  }
}

/** First contact: key and machine may be unknown, because nothing is sent before they are verified. */
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
