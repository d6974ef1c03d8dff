import { checkMachine, checkRegisters, warningsOf } from '../appraise.ts';
import { toHex } from '../bytes.ts';
import { AppraisalError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import type { MachineIdentity, Verdict } from '../verdict.ts';
import { checkSnpPolicy, checkSnpBinding } from './check-policy.ts';
import { decodeSnpEvidence } from './evidence.ts';
import { reportClaims, snpMeasurements } from './report-claims.ts';
import { parseTcb } from './tcb.ts';
import { verifySnpReport, type VerifiedSnpReport, type SnpVerifyOptions } from './verify-report.ts';

/**
 * Inputs of `verifySnpEvidence()`. `not-judged` skips the check of the binding or of the policy, for offline
 * inspection.
 */
interface SnpEvidenceOptions extends SnpVerifyOptions {
  readonly binding: Uint8Array | 'not-judged';
  readonly policy: Policy | 'not-judged';
}

/** Verifies SEV-SNP evidence: its signature, then its binding to the session, then the policy. Throws AttestationError. */
export function verifySnpEvidence(evidence: Uint8Array, options: SnpEvidenceOptions): Verdict {
  const { binding, policy, nowMs } = options;
  const genuine = verifySnpReport(decodeSnpEvidence(evidence), options);
  const { checks } = genuine.checks;
  if (binding === 'not-judged')
    genuine.checks.skip('snp-binding', { actual: toHex(genuine.report.reportData) });
  else checkSnpBinding(genuine, binding);
  const measurements = snpMeasurements(genuine.report);
  const machineIdentity = snpIdentity(genuine);
  if (policy !== 'not-judged') {
    if (policy.snp === undefined)
      throw new AppraisalError('attestation-policy-missing', 'verifying an SNP report', { checks });
    checkSnpPolicy(genuine, policy.snp, nowMs);
    checkRegisters(measurements, policy, checks);
    checkMachine(machineIdentity, policy, checks);
  } else if (genuine.report.guestPolicy.debug) {
    // Debug mode lets the host read the memory of the machine, so every production policy refuses it.
    genuine.checks.warn('snp-debug', { expected: false, actual: true });
  }
  return {
    variant: 'sev-snp',
    accepted: true,
    checks,
    measurements,
    tcb: { ...parseTcb(genuine.report.tcb.reported, genuine.product) },
    machineIdentity,
    claims: snpClaims(genuine),
    warnings: [...warningsOf(checks), NO_RUNTIME_REGISTERS],
    policyVersion: policy === 'not-judged' ? policy : policy.version,
  };
}

/** A limitation that is among the warnings of every verdict. */
const NO_RUNTIME_REGISTERS =
  'An SNP report covers the software that was launched; it has no register for changes after launch.';

/** A VCEK identifies a chip. A VLEK identifies only a cloud provider. */
function snpIdentity({ endorsement }: VerifiedSnpReport): MachineIdentity {
  return endorsement.hardwareId === undefined
    ? { kind: 'snp-csp', id: endorsement.cspId ?? '', proof: 'endorsed' }
    : { kind: 'snp-chip', id: toHex(endorsement.hardwareId), proof: 'endorsed' };
}

function snpClaims({ report, product, endorsement }: VerifiedSnpReport): Verdict['claims'] {
  const { cspId } = endorsement;
  return { product, ...(cspId === undefined ? {} : { provider: cspId }), ...reportClaims(report, product) };
}
