import {
  CodedError,
  defineErrors,
  type CodedErrorOptions,
  type ErrorCatalogue,
  type ErrorSpec,
} from '../errors/index.ts';
import type { Check } from './verdict.ts';

/** The catalogue entry of a refused check: the peer's doing, never worth the same call again. */
export function refusedCheck(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}

const REGISTER_FIX =
  'If the software was changed on purpose, measure it (`cluster attest measure`) and add the value to the reference values.';

/** Refusals that are the same for every kind of evidence. Each kind adds its own catalogue. */
export const attestationErrors = defineErrors({
  'attestation-binding-length': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'Evidence was to be bound to a value that is empty, short or long.',
    fix: 'Please report it: the caller must give exactly 64 bytes.',
  },
  'attestation-evidence-too-large': refusedCheck(
    'The evidence is larger than any real one; it was not looked at.',
    'See what answers at that address: it is not an agent of this version.',
  ),
  'attestation-evidence-malformed': refusedCheck(
    'The evidence document is not well-formed.',
    'See what answers at that address: it is not an agent of this version.',
  ),
  'attestation-policy-missing': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The policy or the endorsements say nothing about this kind of evidence.',
    fix: 'Write the section of this attestation variant into the cluster configuration.',
  },
  'attestation-policy-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The policy contradicts itself or names nothing to check.',
    fix: 'Correct the value named in the message.',
  },
  'attestation-register-missing': refusedCheck(
    'The evidence does not show a register that the policy has reference values for.',
    'See that the machine quotes this register; older agents and other TEEs have fewer.',
  ),
  'attestation-register-mismatch': refusedCheck(
    'A register holds another value than the reference values: other software was started.',
    REGISTER_FIX,
  ),
  'attestation-machine-unknown': refusedCheck(
    'The machine is not one of those that the policy allows, or has not proved which one it is.',
    'Compare the identity in the message with the allowed machines of the cluster configuration.',
  ),
});

export type AttestationErrorCode = keyof typeof attestationErrors;

export interface RefusalOptions extends CodedErrorOptions {
  /** For the local log; a peer learns at most the code. */
  readonly expected?: string;
  readonly actual?: string;
  /** The checks that passed before this one. */
  readonly checks?: readonly Check[];
}

/**
 * Evidence was refused. The code names the check; `details` has expected and actual. Each kind of evidence
 * derives a class with its own catalogue, so `instanceof AttestationError` means refused, whichever kind.
 */
export class AttestationError<Code extends string = string> extends CodedError<Code> {
  /** Everything that was looked at up to and including the check that failed. */
  readonly checks: readonly Check[];

  constructor(catalogue: ErrorCatalogue<Code>, code: Code, message: string, options: RefusalOptions = {}) {
    const { expected, actual, checks = [], ...rest } = options;
    const compared = {
      ...(expected === undefined ? {} : { expected }),
      ...(actual === undefined ? {} : { actual }),
    };
    super(catalogue, code, message, { ...rest, details: { ...compared, ...rest.details } });
    this.checks = [...checks, { name: code, outcome: 'fail', ...compared }];
  }
}

/** The base of the error class of an evidence variant, as `errorClass` is of other directories. */
export function refusalClass<Code extends string>(
  catalogue: ErrorCatalogue<Code>,
): new (code: Code, message: string, options?: RefusalOptions) => AttestationError<Code> {
  return class extends AttestationError<Code> {
    constructor(code: Code, message: string, options?: RefusalOptions) {
      super(catalogue, code, message, options);
    }
  };
}

/** A refusal that does not depend on the kind of evidence. */
export class AppraisalError extends refusalClass(attestationErrors) {}
