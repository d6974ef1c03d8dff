import { checkMachine, checkRegisters, warningsOf } from '../appraise.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { AppraisalError, AttestationError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import type { Check, MachineIdentity, Verdict } from '../verdict.ts';
import { checkTdxPolicy, checkTdxBinding } from './check-policy.ts';
import { decodeTdxEvidence } from './evidence.ts';
import { platformTcb, quoteClaims, tdxMeasurements } from './quote-claims.ts';
import type { TdxRules } from './rules.ts';
import { verifyTdxQuote, type VerifiedTdxQuote, type TdxVerifyOptions } from './verify-quote.ts';
import { EventlogError, eventlogErrors, parseEventLog, replayEventLog } from '../eventlog/index.ts';

/**
 * Inputs of `verifyTdxEvidence()`. `not-judged` skips the check of the binding or of the policy, for offline
 * inspection.
 */
interface TdxEvidenceOptions extends TdxVerifyOptions {
  readonly binding: Uint8Array | 'not-judged';
  readonly policy: Policy | 'not-judged';
}

/** Verifies TDX evidence: its signature, then its binding to the session, then the policy. Throws AttestationError. */
export function verifyTdxEvidence(evidence: Uint8Array, options: TdxEvidenceOptions): Verdict {
  const { binding, policy, nowMs } = options;
  const { quote, eventLog } = decodeTdxEvidence(evidence);
  const genuine = verifyTdxQuote(quote, options);
  const { checks } = genuine.checks;
  if (binding === 'not-judged')
    genuine.checks.skip('tdx-binding', { actual: toHex(genuine.quote.report.reportData) });
  else checkTdxBinding(genuine, binding);
  const measurements = tdxMeasurements(genuine.quote.report);
  const machineIdentity = tdxIdentity(genuine);
  if (policy !== 'not-judged') {
    if (policy.tdx === undefined)
      throw new AppraisalError('attestation-policy-missing', 'verifying a TDX quote', { checks });
    checkTdxPolicy(genuine, policy.tdx, nowMs);
  } else warnWithoutPolicy(genuine);
  const logRule = policy === 'not-judged' ? 'optional' : (policy.tdx?.eventLog ?? 'required');
  checkEventLog(genuine, eventLog, logRule);
  if (policy !== 'not-judged') {
    checkRegisters(measurements, policy, checks);
    checkMachine(machineIdentity, policy, checks);
  }
  return {
    variant: 'tdx',
    accepted: true,
    checks,
    measurements,
    tcb: tdxTcbClaims(genuine),
    machineIdentity,
    claims: { ...quoteClaims(genuine.quote), ppid: toHex(genuine.platform.ppid) },
    warnings: warningsOf(checks),
    policyVersion: policy === 'not-judged' ? policy : policy.version,
  };
}

/** Without a policy, warns about properties that every production policy refuses. */
function warnWithoutPolicy({ quote, tcb, checks }: VerifiedTdxQuote): void {
  if (tcb !== undefined && tcb.status !== 'UpToDate') {
    checks.warn('tdx-tcb-status', {
      expected: 'UpToDate',
      actual: [tcb.status, ...tcb.advisories].join(' '),
    });
  }
  if (quote.report.attributes.underDebug) checks.warn('tdx-debug', { expected: false, actual: true });
}

/** An event log must replay to all four runtime registers. */
function checkEventLog(
  { quote, checks }: VerifiedTdxQuote,
  log: Uint8Array | undefined,
  rule: TdxRules['eventLog'],
): void {
  if (log === undefined) {
    if (rule === 'required') throw checks.refusal('tdx-event-log', { actual: 'no event log' });
    return checks.skip('tdx-event-log', { actual: 'no event log' });
  }
  const replayed = replayRuntimeLog(log, checks.checks);
  const { rtmrs } = quote.report;
  const wrong = rtmrs.findIndex((rtmr, index) => !equalBytes(rtmr, replayed[index] ?? new Uint8Array()));
  checks.require('tdx-event-log', wrong < 0, {
    ...(wrong < 0 ? {} : { expected: `rtmr${wrong} ${toHex(rtmrs[wrong] ?? new Uint8Array())}` }),
    ...(wrong < 0 ? {} : { actual: toHex(replayed[wrong] ?? new Uint8Array()) }),
  });
}

/** The platform that Intel registered, or the processor package if the platform is not registered. */
function tdxIdentity({ platform }: VerifiedTdxQuote): MachineIdentity {
  return { kind: 'tdx-platform', id: toHex(platform.platformInstanceId ?? platform.ppid), proof: 'endorsed' };
}

function tdxTcbClaims({ quote, platform, tcb }: VerifiedTdxQuote): NonNullable<Verdict['tcb']> {
  const judged =
    tcb === undefined
      ? { status: 'not judged: no collateral' }
      : {
          status: tcb.status,
          date: new Date(tcb.dateMs).toISOString(),
          advisories: tcb.advisories.join(' '),
          evaluationNumber: Math.min(
            tcb.tcbInfo.tcbEvaluationDataNumber,
            tcb.qeIdentity.tcbEvaluationDataNumber,
          ),
          collateralFrom: new Date(Math.min(tcb.tcbInfo.issueDate, tcb.qeIdentity.issueDate)).toISOString(),
          collateralUntil: new Date(
            Math.min(tcb.tcbInfo.nextUpdate, tcb.qeIdentity.nextUpdate),
          ).toISOString(),
        };
  return {
    ...judged,
    teeTcbSvn: toHex(quote.report.teeTcbSvn),
    ...platformTcb(platform),
  };
}

const RTMR_BYTES = 48;

/** In a CCEL register 0 is MRTD and 1 to 4 are RTMR0 to RTMR3 (UEFI 2.10, confidential computing event log). */
const LOG_REGISTERS = [1, 2, 3, 4];

/**
 * Computes RTMR0 to RTMR3 from the event log. Throws AttestationError `eventlog-…` for a malformed log, with the checks that
 * passed before.
 */
function replayRuntimeLog(log: Uint8Array, checks: readonly Check[]): readonly Uint8Array[] {
  try {
    const replayed = replayEventLog(parseEventLog(log, 'ccel'), 'sha384');
    return LOG_REGISTERS.map((register) => replayed.get(register) ?? new Uint8Array(RTMR_BYTES));
  } catch (error) {
    if (!(error instanceof EventlogError)) throw error;
    const { code, message, details } = error;
    throw new AttestationError(eventlogErrors, code, message, {
      details,
      checks,
      check: 'event-log',
      cause: error,
    });
  }
}
