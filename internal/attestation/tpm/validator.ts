import { checkMachine, checkRegisters, warningsOf } from '../appraise.ts';
import { isZero } from '../bytes.ts';
import { AppraisalError } from '../errors.ts';
import type { TpmClock } from './rules.ts';
import type { ValidationContext, Validator, Verdict } from '../verdict.ts';
import { AttestationKeyCache } from './key-cache.ts';
import type { VerifiedQuote } from './verify-quote.ts';
import { checkRegisterNames, verifyTpmEvidence, type VerifiedTpmEvidence } from './verify-evidence.ts';

/** Verifies TPM evidence: its signature and binding to the session, then registers and machine against the policy. */
export class TpmValidator implements Validator {
  readonly variant = 'tpm';
  readonly #keys = new AttestationKeyCache();

  async validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    const { policy, collateral } = context;
    if (policy.tpm === undefined || collateral.tpm === undefined) {
      throw new AppraisalError(
        'attestation-policy-missing',
        'verifying a TPM quote: the policy or the endorsements have no section "tpm"',
      );
    }
    checkRegisterNames(policy);
    const verified = verifyTpmEvidence(evidence, binding, {
      rules: policy.tpm,
      endorsements: collateral.tpm,
      parseKey: (bytes) => this.#keys.parse(bytes),
    });
    const { checks } = verified.checks;
    const measurements = tpmMeasurements(verified.pcrValues);
    checkRegisters(measurements, policy, checks);
    checkMachine(verified.machineIdentity, policy, checks);
    return {
      variant: this.variant,
      accepted: true,
      checks,
      measurements,
      machineIdentity: verified.machineIdentity,
      claims: tpmClaims(verified),
      warnings: [...warningsOf(checks), ...limitsOf(verified)],
      policyVersion: policy.version,
    };
  }
}

/** PCR values by register name (`pcr0`…). */
export function tpmMeasurements(values: ReadonlyMap<number, Uint8Array>): ReadonlyMap<string, Uint8Array> {
  return new Map([...values].map(([pcr, value]) => [`pcr${pcr}`, value]));
}

/** The signed facts of TPM evidence. `quoteId` identifies a quote. */
function tpmClaims(verified: VerifiedTpmEvidence): Verdict['claims'] {
  const { proof, quoteId, eventCount, lockCounter } = verified;
  const claims = quoteClaims(verified, { quoteId, batchSize: proof.size }, eventCount);
  return lockCounter === undefined ? claims : { ...claims, lockCounter: lockCounter.toString() };
}

/** The signed facts of a quote: its key, then `own`, then the state of the TPM, and the number of events if there is a log. */
export function quoteClaims(
  { key, statement }: Pick<VerifiedQuote, 'statement'> & Partial<Pick<VerifiedQuote, 'key'>>,
  own: Verdict['claims'],
  eventCount: number | undefined,
): Verdict['claims'] {
  const { clock } = statement;
  return {
    ...(key === undefined
      ? {}
      : { attestationKey: key.nameHex, scheme: `${key.scheme.algorithm}-${key.scheme.hash}` }),
    ...own,
    firmwareVersion: `0x${statement.firmwareVersion.toString(16)}`,
    clockMs: clock.clockMs.toString(),
    resetCount: clock.resetCount,
    restartCount: clock.restartCount,
    safe: clock.safe,
    ...(eventCount === undefined ? {} : { events: eventCount }),
  };
}

/** The TPM clock in a verdict, to be recorded as `lastSeen` of its key; undefined if no TPM was involved. */
export function clockOfVerdict({ claims }: Pick<Verdict, 'claims'>): TpmClock | undefined {
  const [clockMs, resetCount, restartCount, safe] = ['clockMs', 'resetCount', 'restartCount', 'safe'].map(
    (name) => claims[name] ?? claims[`tpm.${name}`],
  );
  if (typeof clockMs !== 'string' || typeof safe !== 'boolean') return undefined;
  if (typeof resetCount !== 'number' || typeof restartCount !== 'number') return undefined;
  return { clockMs: BigInt(clockMs), resetCount, restartCount, safe };
}

/**
 * How often the machine was locked, from the claims of a verdict; undefined if the evidence has no lock counter. A
 * higher value than the recorded one means that the machine was locked again since then: somebody wiped the machine and
 * restored an old copy of its disk.
 */
export function lockCounterOf({ claims }: Pick<Verdict, 'claims'>): bigint | undefined {
  const counted = claims['lockCounter'] ?? claims['tpm.lockCounter'];
  return typeof counted === 'string' ? BigInt(counted) : undefined;
}

/** Warnings for the operator: what this evidence does not prove. */
function limitsOf({ pcrValues, machineIdentity }: VerifiedTpmEvidence): string[] {
  const firmware = [...pcrValues].filter(([pcr]) => pcr <= 7);
  return [
    ...(firmware.length > 0 && firmware.every(([, value]) => isZero(value))
      ? [
          'No firmware measured this boot: PCRs 0 to 7 are zero, so the registers say nothing about the software.',
        ]
      : []),
    ...(machineIdentity.proof === 'unproved'
      ? ['The attestation key is unknown, so the identity of the machine is not proven.']
      : []),
  ];
}
