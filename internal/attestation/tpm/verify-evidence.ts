import { createHash } from 'node:crypto';
import {
  leafHash,
  LOCK_COUNTER,
  lockCounterExtraData,
  quoteExtraData,
  rootFromProof,
  TpmError,
  type ClockInfo,
} from '../../tpm/index.ts';
import { checkSizes } from '../appraise.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { CheckList } from '../check-list.ts';
import { AppraisalError, AttestationError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import type { MachineIdentity } from '../verdict.ts';
import type { KeyParser } from './attestation-key.ts';
import { checkClock } from './clock.ts';
import { quoteErrors, type QuoteErrorCode } from './errors.ts';
import { decodeTpmEvidence, type TpmEvidence } from './evidence.ts';
import { checkEventLog } from './check-event-log.ts';
import { verifyCounterCertificate } from './nv-certificate.ts';
import { verifyQuote, type VerifiedQuote } from './verify-quote.ts';
import { RESETTABLE_PCRS, type KnownAttestationKey, type TpmEndorsements, type TpmRules } from './rules.ts';

/** Inputs of `verifyTpmEvidence()`. */
interface TpmVerifyOptions {
  readonly rules: TpmRules;
  readonly endorsements: TpmEndorsements;
  /** Default: parses without a cache. */
  readonly parseKey?: KeyParser;
}

/** A quote for this session by an accepted key. Register values and machine are not yet compared with the policy. */
export interface VerifiedTpmEvidence extends VerifiedQuote {
  readonly machineIdentity: MachineIdentity;
  readonly clock: ClockInfo;
  /** Identifies the quote: a hash over what was signed, independent of the form of the signature. */
  readonly quoteId: string;
  readonly proof: TpmEvidence['proof'];
  /** Number of events in the firmware event log; undefined if there was none. */
  readonly eventCount: number | undefined;
  /**
   * How often this machine was locked to a cluster; undefined if its TPM did not certify the counter with this quote.
   */
  readonly lockCounter: bigint | undefined;
  readonly checks: CheckList<QuoteErrorCode>;
}

/**
 * Verifies TPM evidence: form, key, signature, known key, binding to this session, PCR values, clock, event log. Throws
 * AttestationError for the first check that fails.
 */
export function verifyTpmEvidence(
  evidence: Uint8Array,
  binding: Uint8Array,
  { rules, endorsements, parseKey }: TpmVerifyOptions,
): VerifiedTpmEvidence {
  checkSizes(evidence, binding);
  checkRules(rules);
  const checks: CheckList<QuoteErrorCode> = new CheckList(quoteErrors, 'verifying a TPM quote');
  const document = decodeTpmEvidence(evidence);
  const nameHex = nameOfBytes(document.attestationKey);
  const known = endorsements.attestationKeys.get(nameHex);
  const quote = verifyQuote(document, checks, { qualifiedNameHex: known?.qualifiedName, parseKey });
  const machineIdentity = identify(quote.key.nameHex, known, rules, checks);
  checkBound(document, binding, quote, checks);
  const lockCounter = verifyLockCounter(document, quote, checks);
  const missing = rules.requiredPcrs.filter((pcr) => !quote.pcrValues.has(pcr));
  checks.require('quote-pcr-missing', missing.length === 0, {
    expected: rules.requiredPcrs.join(','),
    actual: quote.statement.selection.pcrs.join(','),
  });
  const { clock } = quote.statement;
  checkClock(clock, { lastSeen: known?.lastSeen, requireSafe: rules.requireSafeClock }, checks);
  const eventCount = checkEventLog(document.eventLog, quote.pcrValues, { rules, checks });
  const quoteId = createHash('sha256').update(document.attest).digest('hex');
  return {
    ...quote,
    machineIdentity,
    clock,
    quoteId,
    proof: document.proof,
    eventCount,
    lockCounter,
    checks,
  };
}

/** Refuses a `tpm` section that requires nothing. Throws AppraisalError `attestation-policy-invalid`. */
export function checkRules(rules: TpmRules): void {
  const lasting = rules.requiredPcrs.filter((pcr) => !RESETTABLE_PCRS.includes(pcr));
  const inRange = [...rules.requiredPcrs, ...rules.loggedPcrs].every(
    (pcr) => Number.isInteger(pcr) && pcr >= 0 && pcr <= 23,
  );
  if (lasting.length === 0 || !inRange) {
    throw new AppraisalError('attestation-policy-invalid', 'reading the TPM rules', {
      expected: 'PCRs from 0 to 23, and at least one required PCR other than 16 and 23',
      actual: `required ${rules.requiredPcrs.join(',')}, logged ${rules.loggedPcrs.join(',')}`,
    });
  }
}

/** Refuses reference values for resettable PCRs. Throws AppraisalError `attestation-policy-invalid`. */
export function checkRegisterNames(policy: Policy): void {
  for (const pcr of RESETTABLE_PCRS) {
    if (policy.registers.has(`pcr${pcr}`)) {
      throw new AppraisalError('attestation-policy-invalid', `reading the reference value of pcr${pcr}`, {
        expected: 'registers that only a restart resets',
        actual: `pcr${pcr}`,
      });
    }
  }
}

/** The machine that a key belongs to, by the Name of the key (hex). */
function identify(
  nameHex: string,
  known: KnownAttestationKey | undefined,
  rules: TpmRules,
  checks: CheckList<QuoteErrorCode>,
): MachineIdentity {
  if (known === undefined && rules.attestationKeys === 'enrolling') {
    checks.skip('quote-key-unknown', { actual: nameHex });
    return { kind: 'tpm-ak', id: nameHex, proof: 'unproved' };
  }
  checks.require('quote-key-unknown', known !== undefined, { expected: 'an enrolled key', actual: nameHex });
  if (known?.endorsementKeyId !== undefined) {
    return { kind: 'tpm-ek', id: known.endorsementKeyId, proof: 'endorsed' };
  }
  return { kind: 'tpm-ak', id: nameHex, proof: 'pinned' };
}

/** Checks that the extraData of the quote covers the binding (as a leaf of the Merkle tree) and the event log. */
function checkBound(
  { proof, eventLog, lockCounter }: TpmEvidence,
  binding: Uint8Array,
  { statement }: VerifiedQuote,
  checks: CheckList<QuoteErrorCode>,
): void {
  const root = rootOf(binding, proof, checks);
  const expected = quoteExtraData({
    root,
    size: proof.size,
    attachment: eventLog,
    hasLockCounter: lockCounter !== undefined,
  });
  checks.require('quote-binding', equalBytes(expected, statement.extraData), {
    expected: toHex(expected),
    actual: toHex(statement.extraData),
  });
}

/**
 * The lock counter must be certified by the key of the quote and for this quote: otherwise its value could be an old
 * one.
 */
function verifyLockCounter(
  { attestationKey, lockCounter }: TpmEvidence,
  { statement }: VerifiedQuote,
  checks: CheckList<QuoteErrorCode>,
): bigint | undefined {
  if (lockCounter === undefined) {
    checks.skip('quote-lock-counter', { actual: 'none' });
    return undefined;
  }
  try {
    const value = verifyCounterCertificate(lockCounter, {
      attestationKey,
      extraData: lockCounterExtraData(statement.extraData),
      index: LOCK_COUNTER,
    });
    checks.require('quote-lock-counter', true, { actual: value.toString() });
    return value;
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw checks.refusal('quote-lock-counter', { problem: cause.message }, { cause });
  }
}

function rootOf(
  binding: Uint8Array,
  proof: TpmEvidence['proof'],
  checks: CheckList<QuoteErrorCode>,
): Uint8Array {
  try {
    return rootFromProof(leafHash(binding), proof);
  } catch (error) {
    if (!(error instanceof TpmError)) throw error;
    throw checks.refusal('quote-proof-malformed', { actual: error.message }, { cause: error });
  }
}

/**
 * The Name (hex) of a key with a SHA-256 Name, for a lookup before the key is parsed. TPM 2.0 Part 1, 16: the name
 * algorithm and the hash of the public area.
 */
export function nameOfBytes(attestationKey: Uint8Array): string {
  return `000b${createHash('sha256').update(attestationKey).digest('hex')}`;
}
