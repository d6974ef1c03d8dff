import type { Variant } from '../verdict.ts';
import type { Policy } from '../rules.ts';
import { PolicyError } from './errors.ts';
import { parsePolicy } from './parse.ts';

/** What came of a new policy. */
export type PolicyChange =
  | { readonly kind: 'replaced'; readonly version: string; readonly before: string }
  | { readonly kind: 'unchanged'; readonly version: string }
  /** The new one is bad; the old one stays in force. */
  | { readonly kind: 'kept'; readonly version: string; readonly problem: PolicyError };

/**
 * The policy in force. A new one is read and checked as a whole before it takes the old one's place, in one
 * assignment; a connection that is being judged goes on under the one it began with.
 *
 * Written by whoever watches the cluster configuration; read by the validators' callers for each connection.
 */
export class PolicyStore {
  readonly #variants: readonly Variant[];
  #current: Policy;
  #problem: PolicyError | undefined;

  /** `input` is the first policy, as parsed from the configuration; throws a `PolicyError` when it is bad. */
  constructor(options: { readonly variants: readonly Variant[]; readonly input: unknown }) {
    this.#variants = options.variants;
    this.#current = this.#read(options.input);
  }

  get current(): Policy {
    return this.#current;
  }

  /** Why the newest policy is not the one in force, if it is not. */
  get problem(): PolicyError | undefined {
    return this.#problem;
  }

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

  /** A policy that has nothing to say about a variant in use would refuse every machine: better to keep the old one. */
  #read(input: unknown): Policy {
    const policy = parsePolicy(input);
    const missing = this.#variants
      .flatMap((variant) => SECTIONS[variant])
      .find((section) => policy[section] === undefined);
    if (missing !== undefined) {
      throw new PolicyError('policy-variant-unknown', `reading an attestation policy: no section ${missing}`);
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
