import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  AppraisalError,
  BINDING_BYTES,
  type Issuer,
  type ValidationContext,
  type Validator,
  type Variant,
  type Verdict,
} from '../../attestation/index.ts';

export interface HmacEvidenceOptions {
  /** The kind of evidence it stands for. */
  readonly variant: Variant;
  /** Whoever holds it is "the machine". */
  readonly key: Uint8Array;
  /** One register of the machine, signed along. */
  readonly measurement?: string;
}

/**
 * Evidence at no cost, for tests of what carries evidence: measurement, then an HMAC over it and the binding.
 * It stands in for any variant and is therefore never shipped.
 */
export class FakeIssuer implements Issuer {
  readonly variant: Variant;
  readonly #options: HmacEvidenceOptions;
  /** How many times somebody made this machine work. */
  issued = 0;

  constructor(options: HmacEvidenceOptions) {
    this.variant = options.variant;
    this.#options = options;
  }

  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    this.issued++;
    const measurement = Buffer.from(this.#options.measurement ?? 'good', 'utf8');
    return Promise.resolve(Buffer.concat([macOf(this.#options.key, binding, measurement), measurement]));
  }
}

/** Accepts what `FakeIssuer` made with the same key; the measurement must be the expected one. */
export class FakeValidator implements Validator {
  readonly variant: Variant;
  readonly #options: HmacEvidenceOptions;
  validated = 0;

  constructor(options: HmacEvidenceOptions) {
    this.variant = options.variant;
    this.#options = options;
  }

  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    return Promise.try(() => {
      this.validated++;
      const mac = evidence.subarray(0, BINDING_BYTES);
      const measurement = evidence.subarray(BINDING_BYTES);
      const want = macOf(this.#options.key, binding, measurement);
      if (mac.length !== want.length || !timingSafeEqual(mac, want)) {
        throw new AppraisalError('attestation-machine-unknown', 'judging fake evidence');
      }
      const actual = Buffer.from(measurement).toString('utf8');
      const expected = this.#options.measurement ?? 'good';
      if (actual !== expected) {
        throw new AppraisalError('attestation-register-mismatch', 'judging fake evidence', {
          expected,
          actual,
        });
      }
      return verdictOf(this.variant, this.#options.key, measurement, context);
    });
  }
}

function macOf(key: Uint8Array, binding: Uint8Array, measurement: Uint8Array): Buffer {
  if (binding.length !== BINDING_BYTES) throw new RangeError(`a binding of ${binding.length} bytes`);
  return createHmac('sha512', key).update(binding).update(measurement).digest();
}

function verdictOf(
  variant: Variant,
  key: Uint8Array,
  measurement: Uint8Array,
  context: ValidationContext,
): Verdict {
  return {
    variant,
    accepted: true,
    checks: [{ name: 'mac', outcome: 'pass' }],
    measurements: new Map([['pcr0', measurement]]),
    machineIdentity: {
      kind: 'tpm-ak',
      id: createHmac('sha256', key).update('id').digest('hex'),
      proof: 'pinned',
    },
    claims: {},
    warnings: [],
    policyVersion: context.policy.version,
  };
}
