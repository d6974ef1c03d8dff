import type { Check, Claim } from '../../internal/attestation/index.ts';
import type { ExplainedVariant } from './inputs.ts';

/** The answer of `cluster attest explain`, as `--output json` prints it. */
export interface Explanation {
  readonly verdict: 'accepted' | 'refused';
  readonly variant: ExplainedVariant;
  /** Of the check that refused. */
  readonly code?: string;
  readonly reason?: string;
  /** Of the code, as `cluster help errors` explains it. */
  readonly meaning?: string;
  readonly fix?: string;
  readonly expected?: string;
  readonly actual?: string;
  readonly checks: readonly Check[];
  readonly measurements: Readonly<Record<string, string>>;
  readonly tcb: Readonly<Record<string, Claim>>;
  readonly machineIdentity?: string;
  readonly claims: Readonly<Record<string, Claim>>;
  readonly warnings: readonly string[];
  /** The version of the policy that decided, or null when there was none. */
  readonly policy: string | null;
  /** The time the judgement was made for. */
  readonly at: string;
}
