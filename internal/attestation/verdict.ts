import type { Collateral, Policy } from './rules.ts';

/**
 * The vocabulary that every kind of evidence shares: who issues it, who judges it, and what a
 * judgement is. A verdict is a record of named checks and claims; there is no boolean to forget to test:
 * a validator either returns a `Verdict` or throws an `AttestationError` that names the check.
 */

/**
 * Kinds of evidence. `owner-key` is the operator's own and `machine-key` that of a machine without a TPM: signatures over
 * the session's binding, which say who it is and nothing about software.
 */
export type Variant = 'tpm' | 'sev-snp' | 'tdx' | 'snp+tpm' | 'tdx+tpm' | 'owner-key' | 'machine-key';

/**
 * What evidence must be bound to: exactly this many bytes, a SHA-512 that covers the verifier's nonce,
 * the session and both public keys (docs/atls.md). It fills SNP and TDX report data as it is; a TPM
 * quote signs a Merkle root over it.
 */
export const BINDING_BYTES = 64;

/**
 * Evidence and everything in it is at most this large, event log included. Checked before parsing.
 * One aTLS/1 EVIDENCE frame (64 KiB) less its two bytes of format.
 */
export const MAX_EVIDENCE_BYTES = 64 * 1024 - 2;

/** `warn`: not as expected, and the policy writes `warnOnly`. `skipped`: the policy does not ask for it. */
export type CheckOutcome = 'pass' | 'fail' | 'warn' | 'skipped';

/** One thing that was looked at. `expected` and `actual` are for the local log and table, not for the peer. */
export interface Check {
  /** kebab-case; the same name as in the code of the refusal without its directory prefix. */
  readonly name: string;
  readonly outcome: CheckOutcome;
  readonly expected?: string;
  readonly actual?: string;
}

/**
 * Which machine it is.
 * - `endorsed`: the manufacturer vouches for the hardware key that signed (chip certificate, or an AK
 *   that this cluster has tied to an endorsed EK by credential activation).
 * - `pinned`: the key is the one on record; who made the hardware was not asked.
 * - `unproved`: the key is well-formed and unknown. Good only for running the enrolment that proves it.
 */
export interface MachineIdentity {
  readonly kind: 'tpm-ek' | 'tpm-ak' | 'snp-chip' | 'snp-csp' | 'tdx-platform' | 'owner-key' | 'machine-key';
  /** Lower-case hex: hash or identifier, by kind. */
  readonly id: string;
  readonly proof: 'endorsed' | 'pinned' | 'unproved';
}

/** `tpm-ek:90ab…`: the form in which policies list allowed machines and records name them. */
export function machineIdentityText(identity: MachineIdentity): string {
  return `${identity.kind}:${identity.id}`;
}

/** A fact from verified (signed or exactly checked) parts of the evidence, for people and policies. */
export type Claim = string | number | boolean;

export interface Verdict {
  readonly variant: Variant;
  /** A refusal is thrown, never returned; the field is there for JSON readers. */
  readonly accepted: true;
  readonly checks: readonly Check[];
  /** By register name: `pcr0`…`pcr23`, `rtmr0`…`rtmr3`, `mrtd`, `launch`. */
  readonly measurements: ReadonlyMap<string, Uint8Array>;
  /** The trusted computing base as the manufacturer numbers it, where there is one. */
  readonly tcb?: Readonly<Record<string, Claim>>;
  readonly machineIdentity: MachineIdentity;
  readonly claims: Readonly<Record<string, Claim>>;
  /** Sentences for the operator: what was only warned about, what this evidence does not show. */
  readonly warnings: readonly string[];
  readonly policyVersion: string;
}

/** Makes evidence on the machine itself. */
export interface Issuer {
  readonly variant: Variant;
  /** `binding` is `BINDING_BYTES` long. Rejects with a coded error or the signal's reason. */
  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/**
 * Makes evidence by the TPM of another process on this machine. That process does not sign 64 bytes that somebody names:
 * it wants the statement of an aTLS session, checks whose it is, and makes the binding itself (internal/atls/evidencesocket).
 */
export interface SessionIssuer {
  readonly variant: Variant;
  /** `statement`: what the session's binding is the SHA-512 of (docs/atls.md §4). */
  issueForSession(statement: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/** Judges evidence. Pure: no network, no clock but `context.nowMs`. */
export interface Validator {
  readonly variant: Variant;
  /** Resolves with what was verified or rejects with an `AttestationError`. `evidence` is the peer's. */
  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict>;
}

/** Everything a judgement depends on beside the evidence. The same inputs give the same verdict. */
export interface ValidationContext {
  readonly nowMs: number;
  readonly policy: Policy;
  readonly collateral: Collateral;
}
