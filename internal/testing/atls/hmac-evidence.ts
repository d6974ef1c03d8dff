import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
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
  /** The variant of evidence that this fake replaces. */
  readonly variant: Variant;
  /** The holder of this key counts as "the machine". */
  readonly key: Uint8Array;
  /** One measurement of the machine, covered by the MAC; default: "good". */
  readonly measurement?: string;
  /** Distinguishes machines that share the key. Its SHA-256 becomes the identity. */
  readonly name?: string;
}

/**
 * Cheap evidence for tests of code that transports evidence: an HMAC over the binding and
 * `measurement@name`, followed by that text. It can replace any variant and is therefore never shipped.
 */
export class FakeIssuer implements Issuer {
  readonly variant: Variant;
  readonly #options: HmacEvidenceOptions;
  /** The number of times that evidence was requested from this machine. */
  issued = 0;

  constructor(options: HmacEvidenceOptions) {
    this.variant = options.variant;
    this.#options = options;
  }

  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    this.issued++;
    const { key, measurement = 'good', name } = this.#options;
    const said = Buffer.from(name === undefined ? measurement : `${measurement}@${name}`, 'utf8');
    return Promise.resolve(Buffer.concat([macOf(key, binding, said), said]));
  }
}

/** Accepts evidence that `FakeIssuer` made with the same key, if the measurement is the expected one. */
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
      const said = evidence.subarray(BINDING_BYTES);
      const want = macOf(this.#options.key, binding, said);
      if (mac.length !== want.length || !timingSafeEqual(mac, want)) {
        throw new AppraisalError('attestation-machine-unknown', 'judging fake evidence');
      }
      const [actual = '', name = ''] = Buffer.from(said).toString('utf8').split('@');
      const expected = this.#options.measurement ?? 'good';
      if (actual !== expected) {
        throw new AppraisalError('attestation-register-mismatch', 'judging fake evidence', {
          expected,
          actual,
        });
      }
      return verdictOf(this.variant, actual, name, context);
    });
  }
}

function macOf(key: Uint8Array, binding: Uint8Array, said: Uint8Array): Buffer {
  if (binding.length !== BINDING_BYTES) throw new RangeError(`a binding of ${binding.length} bytes`);
  return createHmac('sha512', key).update(binding).update(said).digest();
}

/**
 * Shared by all verdicts: a verdict lives as long as its connection, and fake evidence must use little
 * memory.
 */
const CHECKS: Verdict['checks'] = [{ name: 'mac', outcome: 'pass' }];
const NO_CLAIMS: Verdict['claims'] = {};
const NO_WARNINGS: Verdict['warnings'] = [];

function verdictOf(variant: Variant, measurement: string, name: string, context: ValidationContext): Verdict {
  return {
    variant,
    accepted: true,
    checks: CHECKS,
    measurements: new Map([['pcr0', Buffer.from(measurement, 'utf8')]]),
    machineIdentity: {
      kind: 'tpm-ak',
      id: createHash('sha256').update(name).digest('hex'),
      proof: 'pinned',
    },
    claims: NO_CLAIMS,
    warnings: NO_WARNINGS,
    policyVersion: context.policy.version,
  };
}
