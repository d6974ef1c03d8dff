import type { Variant } from '../verdict.ts';
import type { Policy } from '../rules.ts';
import { PolicyError } from './errors.ts';
import { parsePolicy } from './parse.ts';

/** The result of replacing a policy. */
type PolicyChange =
  | { readonly kind: 'replaced'; readonly version: string; readonly before: string }
  | { readonly kind: 'unchanged'; readonly version: string }
  /** The new policy is invalid, so that the old one stays active. */
  | { readonly kind: 'kept'; readonly version: string; readonly problem: PolicyError };

/**
 * The active policy. A new policy is checked completely before it replaces the old one; a handshake in progress keeps the
 * policy that it started with. Written by the watcher of the cluster configuration, read for each connection.
 */
export class PolicyStore {
  readonly #variants: readonly Variant[];
  #current: Policy;
  #problem: PolicyError | undefined;

  /** `input`: the first policy, from the configuration. Throws PolicyError if it is invalid. */
  constructor(options: { readonly variants: readonly Variant[]; readonly input: unknown }) {
    this.#variants = options.variants;
    this.#current = this.#read(options.input);
  }

  get current(): Policy {
    return this.#current;
  }

  /** Why the newest policy was refused; undefined if it is active. */
  get problem(): PolicyError | undefined {
    return this.#problem;
  }

  /** Replaces the policy if the new one is valid. */
  replace(input: unknown): PolicyChange {
    const before = this.#current.version;
    try {
      this.#current = this.#read(input);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      this.#problem = error;
      return { kind: 'kept', version: before, problem: error };
    }
    this.#problem = undefined;
    const { version } = this.#current;
    return version === before ? { kind: 'unchanged', version } : { kind: 'replaced', version, before };
  }

  /**
   * Parses a policy. Refuses a policy that lacks the section of a variant in use, because such a policy would refuse
   * every machine of that variant.
   */
  #read(input: unknown): Policy {
    const policy = parsePolicy(input);
    const missing = this.#variants
      .flatMap((variant) => SECTIONS[variant])
      .find((section) => policy[section] === undefined);
    if (missing !== undefined) {
      throw new PolicyError(
        'policy-variant-unknown',
        `reading an attestation policy: section "${missing}" is missing`,
      );
    }
    return policy;
  }
}

const SECTIONS: Readonly<Record<Variant, readonly ('tpm' | 'snp' | 'tdx')[]>> = {
  tpm: ['tpm'],
  'sev-snp': ['snp'],
  tdx: ['tdx'],
  'snp+tpm': ['snp', 'tpm'],
  'tdx+tpm': ['tdx', 'tpm'],
  'owner-key': [],
  'machine-key': [],
};
