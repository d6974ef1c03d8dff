import type { SnpCollateral, SnpRules } from './snp/rules.ts';
import type { TdxCollateral, TdxRules } from './tdx/rules.ts';
import type { TpmEndorsements, TpmRules } from './tpm/rules.ts';

/**
 * The accepted software and machines. Each attestation variant has its own section and refuses evidence when the
 * section is missing. A missing rule accepts nothing.
 */
export interface Policy {
  /** Names this set of values in every verdict, audit record and log line. */
  readonly version: string;
  /** `measured`: verifies machine and software. `identity`: verifies only the machine. */
  readonly profile?: 'measured' | 'identity';
  /** Reference values by register name. Other registers are reported but not checked. */
  readonly registers: ReadonlyMap<string, RegisterRule>;
  /** Accepted machines, in the form of `machineIdentityText()`; `any-proved` accepts all that are not `unproved`. */
  readonly machines: 'any-proved' | 'any' | ReadonlySet<string>;
  readonly tpm?: TpmRules;
  readonly snp?: SnpRules;
  readonly tdx?: TdxRules;
}

/** The reference values of a register. There may be several, so that machines of two releases can coexist. */
export interface RegisterRule {
  /** Lower-case hex, never empty. */
  readonly accepted: readonly string[];
  /** A mismatch only leads to a warning. */
  readonly warnOnly: boolean;
}

/** Signed data of manufacturers, and keys enrolled in this cluster, that evidence is verified against. */
export interface Collateral {
  readonly tpm?: TpmEndorsements;
  readonly snp?: SnpCollateral;
  readonly tdx?: TdxCollateral;
}
