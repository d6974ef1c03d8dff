import {
  CodedError,
  type CodedErrorOptions,
  defineErrors,
  type ErrorCatalogue,
  fault,
} from '../errors/index.ts';
import type { Check } from './verdict.ts';

/** Refusals that all attestation variants share. Each variant adds its own catalog. */
export const attestationErrors = defineErrors({
  'attestation-binding-length': fault.system.internal(
    'A caller requested evidence over a binding that does not have 64 bytes. This is a bug.',
    'Report this bug with the output of `journalctl -u bootstrapper` or of the command with `--verbose`.',
  ),
  'attestation-evidence-too-large': fault.peer.refused(
    'The evidence is larger than the limit of 64 KiB and was not parsed.',
    'Check the address: the machine that responds does not run an agent of this version.',
  ),
  'attestation-evidence-malformed': fault.peer.refused(
    'The evidence document is malformed.',
    'Check the address: the machine that responds does not run an agent of this version.',
  ),
  'attestation-policy-missing': fault.operator.usage(
    'The policy or the collateral has no section for the attestation variant of this evidence.',
    'Add the section for this attestation variant (tpm, sev-snp or tdx) to the policy in the cluster configuration.',
  ),
  'attestation-policy-invalid': fault.operator.usage(
    'The policy contradicts itself or does not name anything to check.',
    'Change the policy value shown as `actual` to the value shown as `expected`.',
  ),
  'attestation-register-missing': fault.peer.refused(
    'The policy has reference values for a register that is not in the evidence.',
    'Upgrade the agent if it does not quote this register, or remove the register from the policy if the TEE does not have it.',
  ),
  'attestation-register-mismatch': fault.peer.refused(
    'The value of a register is none of its reference values: other software was started.',
    'If the software was changed on purpose, run `cluster attest measure` on the machine and add the value to the reference values.',
  ),
  'attestation-machine-unknown': fault.peer.refused(
    'The machine is not in the list of the policy, or did not prove its identity.',
    'Compare the identity shown as `actual` with `machines` in the policy of the cluster configuration.',
  ),
});

/** Options of a refusal. */
export interface RefusalOptions extends CodedErrorOptions {
  /** For the local log. The peer receives at most the code. */
  readonly expected?: string;
  readonly actual?: string;
  /** The checks that passed before this one. */
  readonly checks?: readonly Check[];
  /** Name of the failed check, the same as when it passes. Default: the code without its prefix. */
  readonly check?: string;
}

/** The code without its prefix: `snp-debug` is the refusal of the check `debug`. */
export function checkName(code: string): string {
  return code.slice(code.indexOf('-') + 1);
}

/**
 * Evidence was refused. The code names the check; `details` has `expected` and `actual`. Each attestation variant derives a
 * class with its own catalog, so that `instanceof AttestationError` matches the refusals of all variants.
 */
export class AttestationError<Code extends string = string> extends CodedError<Code> {
  /** All checks up to and including the one that failed. */
  readonly checks: readonly Check[];
  readonly #catalogue: ErrorCatalogue<Code>;

  constructor(catalogue: ErrorCatalogue<Code>, code: Code, message: string, options: RefusalOptions = {}) {
    const { checks = [], check = checkName(code), ...rest } = options;
    const compared = { ...textIn(rest, 'expected'), ...textIn(rest, 'actual') };
    super(catalogue, code, message, { ...rest, details: { ...rest.details, ...compared } });
    this.checks = [...checks, { name: check, outcome: 'fail', ...compared }];
    this.#catalogue = catalogue;
  }

  /**
   * The same refusal in a wider context: `doing` comes before its message, and `checks` replaces its checks.
   * @param doing for example `reading log.bin`
   */
  within(doing: string, checks: readonly Check[] = this.checks): AttestationError<Code> {
    const { code, details, fix, retryable } = this;
    return new AttestationError(this.#catalogue, code, doing, {
      cause: this,
      details,
      fix,
      retryable,
      checks: checks.slice(0, -1),
      check: checks.at(-1)?.name ?? checkName(code),
    });
  }
}

/** One compared value, from the options or from their details. */
function textIn(
  options: Pick<RefusalOptions, 'expected' | 'actual' | 'details'>,
  name: 'expected' | 'actual',
): Partial<Record<'expected' | 'actual', string>> {
  const value = options[name] ?? options.details?.[name];
  return typeof value === 'string' ? { [name]: value } : {};
}

/** Creates the base class for the errors of one attestation variant, as `errorClass()` does for other errors. */
export function refusalClass<Code extends string>(
  catalogue: ErrorCatalogue<Code>,
): new (code: Code, message: string, options?: RefusalOptions) => AttestationError<Code> {
  return class extends AttestationError<Code> {
    constructor(code: Code, message: string, options?: RefusalOptions) {
      super(catalogue, code, message, options);
    }
  };
}

/** A refusal that does not depend on the attestation variant. */
export class AppraisalError extends refusalClass(attestationErrors) {}
