import type { ErrorCatalogue } from '../errors/index.ts';
import { AttestationError, checkName, type RefusalOptions } from './errors.ts';
import type { Check, Claim } from './verdict.ts';

/** The values that a check compared, for the table of checks and the local log. */
interface Comparison {
  readonly expected?: Claim;
  readonly actual?: Claim;
  /** Shown in place of `actual` when the check fails. Used by checks that have no value to show when they pass. */
  readonly problem?: string;
  /** What was checked, if the same check is made more than once: `certificate-missing/chip`. */
  readonly subject?: string;
}

/**
 * The checks of one verification, in order. Refusals are created only here, so that each one names its check and carries the
 * checks that passed before it.
 */
export class CheckList<Code extends string> {
  readonly #checks: Check[] = [];
  readonly #catalogue: ErrorCatalogue<Code>;
  readonly #doing: string;

  /** `doing` starts the message of a refusal, e.g. `verifying an SNP report`. */
  constructor(catalogue: ErrorCatalogue<Code>, doing: string) {
    this.#catalogue = catalogue;
    this.#doing = doing;
  }

  /** The checks so far. Always the same array, so that other functions (`checkRegisters()`) can append to it. */
  get checks(): Check[] {
    return this.#checks;
  }

  /** Records that a check passed, or throws its refusal. */
  require(code: Code, passed: boolean, comparison: Comparison = {}): void {
    if (!passed) throw this.refusal(code, comparison);
    this.#record(code, 'pass', comparison);
  }

  /** Records that a check was skipped because the policy does not ask for it. */
  skip(code: Code, comparison: Comparison = {}): void {
    this.#record(code, 'skipped', comparison);
  }

  /** Records a failed check that the policy only warns about. */
  warn(code: Code, comparison: Comparison): void {
    this.#record(code, 'warn', comparison);
  }

  /** The refusal of a failed check: `verifying an SNP report: check "debug" failed: expected false, found true`. */
  refusal(code: Code, comparison: Comparison = {}, options: RefusalOptions = {}): AttestationError<Code> {
    const { expected, actual } = asText({
      ...comparison,
      ...(comparison.problem && { actual: comparison.problem }),
    });
    const check = nameOf(code, comparison);
    const compared = [expected && `expected ${expected}`, actual && `found ${actual}`].filter(Boolean);
    const message = [`${this.#doing}: check "${check}" failed`, compared.join(', ')].filter(Boolean);
    return new AttestationError(this.#catalogue, code, message.join(': '), {
      ...options,
      ...(expected === undefined ? {} : { expected }),
      ...(actual === undefined ? {} : { actual }),
      checks: this.#checks,
      check,
    });
  }

  #record(code: Code, outcome: Check['outcome'], comparison: Comparison): void {
    this.#checks.push({ name: nameOf(code, comparison), outcome, ...asText(comparison) });
  }
}

function nameOf(code: string, { subject }: Comparison): string {
  return [checkName(code), ...(subject === undefined ? [] : [subject])].join('/');
}

function asText({ expected, actual }: Comparison): { readonly expected?: string; readonly actual?: string } {
  return {
    ...(expected === undefined ? {} : { expected: String(expected) }),
    ...(actual === undefined ? {} : { actual: String(actual) }),
  };
}
