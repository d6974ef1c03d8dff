import type { ErrorCatalogue } from '../errors/index.ts';
import { AttestationError, type RefusalOptions } from './errors.ts';
import type { Check, Claim } from './verdict.ts';

/** What was compared with what; shown in the table and in the local log. */
export interface Comparison {
  readonly expected?: Claim;
  readonly actual?: Claim;
  /** Stands for `actual` when the check fails, where a pass has nothing to show. */
  readonly problem?: string;
}

/**
 * The checks of one judgement in the order they were made. `require` is the only way to a refusal, so that each one
 * names its check and carries those that passed before.
 */
export class CheckList<Code extends string> {
  readonly #checks: Check[] = [];
  readonly #catalogue: ErrorCatalogue<Code>;
  readonly #doing: string;

  /** `doing` begins the message of a refusal, in the gerund: `judging an SNP report`. */
  constructor(catalogue: ErrorCatalogue<Code>, doing: string) {
    this.#catalogue = catalogue;
    this.#doing = doing;
  }

  /** The checks so far; the same array all the time, so that shared checks can append to it. */
  get checks(): Check[] {
    return this.#checks;
  }

  /** Records that the check passed or refuses with its code. */
  require(code: Code, passed: boolean, comparison: Comparison = {}): void {
    if (!passed) throw this.refusal(code, comparison);
    this.#record(code, 'pass', comparison);
  }

  /** For the checks a policy does not ask for: recorded all the same, so that nobody takes them for done. */
  skip(code: Code, comparison: Comparison = {}): void {
    this.#record(code, 'skipped', comparison);
  }

  /** Records what is not as it should be and does not refuse, for the policies that write that out. */
  warn(code: Code, comparison: Comparison): void {
    this.#record(code, 'warn', comparison);
  }

  refusal(code: Code, comparison: Comparison = {}, options: RefusalOptions = {}): AttestationError<Code> {
    return new AttestationError(this.#catalogue, code, `${this.#doing}: ${code}`, {
      ...options,
      ...asText({ ...comparison, ...(comparison.problem && { actual: comparison.problem }) }),
      checks: this.#checks,
    });
  }

  #record(code: Code, outcome: Check['outcome'], comparison: Comparison): void {
    this.#checks.push({ name: checkName(code), outcome, ...asText(comparison) });
  }
}

/** `snp-debug` is the refusal of the check `debug`. */
function checkName(code: string): string {
  return code.slice(code.indexOf('-') + 1);
}

function asText({ expected, actual }: Comparison): { readonly expected?: string; readonly actual?: string } {
  return {
    ...(expected === undefined ? {} : { expected: String(expected) }),
    ...(actual === undefined ? {} : { actual: String(actual) }),
  };
}
