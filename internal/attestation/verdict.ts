import type { Collateral, Policy } from './rules.ts';

/*
 * The types that all attestation variants share. A validator either returns a `Verdict`, a record of named checks and claims,
 * or throws an `AttestationError` that names the failed check. So there is no boolean that a caller could forget to test.
 */

/** The attestation variants that say something about the software of a machine. */
export const MEASURED_VARIANTS = ['tpm', 'sev-snp', 'tdx', 'snp+tpm', 'tdx+tpm'] as const;
/** A variant that says something about the software of a machine. */
export type MeasuredVariant = (typeof MEASURED_VARIANTS)[number];

/**
 * All attestation variants, i.e. kinds of evidence. `owner-key` (an operator) and `machine-key` (a machine without a TPM) are
 * signatures over the binding; they prove identity and nothing about software.
 */
export const VARIANTS = [...MEASURED_VARIANTS, 'owner-key', 'machine-key'] as const;
/** An attestation variant. */
export type Variant = (typeof VARIANTS)[number];

/**
 * Size of the binding that evidence covers: a SHA-512 over the verifier's nonce, the session and both public keys
 * (docs/atls.md). It is the report data of SNP and TDX; a TPM quote signs a Merkle root over it.
 */
export const BINDING_BYTES = 64;

/** Size limit of evidence, event log included: an aTLS/1 EVIDENCE frame (64 KiB) without its two bytes of format. */
export const MAX_EVIDENCE_BYTES = 64 * 1024 - 2;

/** Outcome of a check. `warn`: failed, and the policy has `warnOnly`. `skipped`: the policy does not ask for it. */
type CheckOutcome = 'pass' | 'fail' | 'warn' | 'skipped';

/** One check. `expected` and `actual` are for the local log and for tables; the peer never gets them. */
export interface Check {
  /** The code of the refusal of this check, in kebab case and without its prefix. */
  readonly name: string;
  readonly outcome: CheckOutcome;
  readonly expected?: string;
  readonly actual?: string;
}

/**
 * The identity of a machine, and how it was proved.
 * - `endorsed`: the manufacturer certified the hardware key that signed (chip certificate, or an AK that credential activation
 *   linked to a certified EK).
 * - `pinned`: the key is the one on record; the manufacturer was not verified.
 * - `unproved`: the key is well-formed and unknown. Sufficient only for the enrolment that proves it.
 */
export interface MachineIdentity {
  readonly kind: 'tpm-ek' | 'tpm-ak' | 'snp-chip' | 'snp-csp' | 'tdx-platform' | 'owner-key' | 'machine-key';
  /** Lower-case hex: hash or identifier, by kind. */
  readonly id: string;
  readonly proof: 'endorsed' | 'pinned' | 'unproved';
}

/**
 * How every text for operators says what is known about the maker of a machine. A TPM proves its key even if nobody trusts
 * its manufacturer: then an operator has to vouch for the machine.
 */
const PROOF_TEXTS: ReadonlyMap<string, string> = new Map<MachineIdentity['proof'], string>([
  ['endorsed', 'endorsed by a trusted manufacturer'],
  ['pinned', 'approved or listed key, manufacturer not verified'],
  ['unproved', 'key not approved before, manufacturer not verified'],
]);

/** The words for a proof that is named in a record or message; an unknown name stays as it is. */
export function proofText(proof: string): string {
  return PROOF_TEXTS.get(proof) ?? proof;
}

/** `tpm-ek:90ab…`: the form in which policies list allowed machines and records name them. */
export function machineIdentityText(identity: MachineIdentity): string {
  return `${identity.kind}:${identity.id}`;
}

const ENDORSEMENT_KEY = 'tpm-ek:';

/** The identity of a machine with this endorsement key (SHA-256 of its SubjectPublicKeyInfo, hex), as records name it. */
export function endorsementKeyIdentity(endorsementKeyId: string): string {
  return `${ENDORSEMENT_KEY}${endorsementKeyId}`;
}

/** The endorsement key that an identity names; undefined for an identity of another kind. */
export function endorsementKeyIdIn(identity: string): string | undefined {
  return identity.startsWith(ENDORSEMENT_KEY) ? identity.slice(ENDORSEMENT_KEY.length) : undefined;
}

/** A fact from verified parts of the evidence, for display and policies. */
export type Claim = string | number | boolean;

/** Evidence that was accepted, and what it proves. */
export interface Verdict {
  readonly variant: Variant;
  /** Always true, because a refusal is thrown; for readers of the JSON output. */
  readonly accepted: true;
  readonly checks: readonly Check[];
  /** By register name: `pcr0`…`pcr23`, `rtmr0`…`rtmr3`, `mrtd`, `launch`. */
  readonly measurements: ReadonlyMap<string, Uint8Array>;
  /** Versions of the trusted computing base, in the numbering of the manufacturer, for SNP and TDX. */
  readonly tcb?: Readonly<Record<string, Claim>>;
  readonly machineIdentity: MachineIdentity;
  readonly claims: Readonly<Record<string, Claim>>;
  /** Sentences for the operator: failed checks that only warn, and what this evidence cannot prove. */
  readonly warnings: readonly string[];
  readonly policyVersion: string;
}

/** What evidence says of its machine. Nothing of it is verified: shown for refused evidence only. */
export type DecodedEvidence = Pick<Verdict, 'measurements' | 'tcb' | 'claims'>;

/** Creates evidence on the machine itself. */
export interface Issuer {
  readonly variant: Variant;
  /** `binding` is `BINDING_BYTES` long. Rejects with a coded error or the signal's reason. */
  issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/**
 * Creates evidence through another process that has the TPM of this machine. That process does not accept a binding: it
 * requires the statement of an aTLS session, checks it, and computes the binding itself (internal/atls/evidencesocket).
 */
export interface SessionIssuer {
  readonly variant: Variant;
  /** `statement`: the preimage of the session's binding (docs/atls.md §4). */
  issueForSession(statement: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/** Verifies evidence. Pure: no network, and no clock but `context.nowMs`. */
export interface Validator {
  readonly variant: Variant;
  /** Resolves with the verdict or rejects with an AttestationError. `evidence` is untrusted. */
  validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict>;
}

/** Everything besides the evidence that a verdict depends on. The same inputs give the same verdict. */
export interface ValidationContext {
  readonly nowMs: number;
  readonly policy: Policy;
  readonly collateral: Collateral;
}
