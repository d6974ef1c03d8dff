import type { SnpCollateral, SnpRules } from './snp/rules.ts';
import type { TdxCollateral, TdxRules } from './tdx/rules.ts';
import type { TpmEndorsements, TpmRules } from './tpm/rules.ts';

/**
 * What a validator is told: the policy (which software and machines are accepted) and the collateral
 * (what manufacturers and this cluster vouch for). Each kind of evidence adds its own section and
 * refuses when it is absent: there are no defaults that accept.
 */
export interface Policy {
  /** Names this set of values in every verdict, audit record and log line. */
  readonly version: string;
  /** What passing means: `measured` the software too, `identity` only which machine it is. */
  readonly profile?: 'measured' | 'identity';
  /** Reference values by register name. What is not named here is reported and not judged. */
  readonly registers: ReadonlyMap<string, RegisterRule>;
  /** Machines that may pass, as `machineIdentityText`; `any-proved` takes every one that is not `unproved`. */
  readonly machines: 'any-proved' | 'any' | ReadonlySet<string>;
  readonly tpm?: TpmRules;
  readonly snp?: SnpRules;
  readonly tdx?: TdxRules;
}

/** Several values may be accepted at once, so that machines of two releases live together. */
export interface RegisterRule {
  /** Lower-case hex, never empty. */
  readonly accepted: readonly string[];
  /** A mismatch is recorded and warned about and does not refuse. Only where it is written out. */
  readonly warnOnly: boolean;
}

/** Signed facts from elsewhere that evidence is checked against; bundled, refreshed by the operator, aged by policy. */
export interface Collateral {
  readonly tpm?: TpmEndorsements;
  readonly snp?: SnpCollateral;
  readonly tdx?: TdxCollateral;
}
