import { checkMachine, checkRegisters, warningsOf } from '../appraise.ts';
import { toHex } from '../bytes.ts';
import { AppraisalError } from '../errors.ts';
import type { Policy } from '../rules.ts';
import type { MachineIdentity, Verdict } from '../verdict.ts';
import { checkSnpPolicy, checkSnpBinding } from './check-policy.ts';
import { decodeSnpEvidence } from './evidence.ts';
import type { SnpReport } from './report.ts';
import { describeTcb, parseTcb } from './tcb.ts';
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

/** SNP has one register, the launch digest. */
function snpMeasurements(report: SnpReport): ReadonlyMap<string, Uint8Array> {
  return new Map([['launch', Uint8Array.from(report.measurement)]]);
}

/** A VCEK identifies a chip. A VLEK identifies only a cloud provider. */
function snpIdentity({ endorsement }: VerifiedSnpReport): MachineIdentity {
  return endorsement.hardwareId === undefined
    ? { kind: 'snp-csp', id: endorsement.cspId ?? '', proof: 'endorsed' }
    : { kind: 'snp-chip', id: toHex(endorsement.hardwareId), proof: 'endorsed' };
}

/** The signed fields of the report, for display and policies. */
function snpClaims({ report, product, endorsement }: VerifiedSnpReport): Verdict['claims'] {
  const { guestPolicy, cpuid, firmware } = report;
  const tcb = (name: keyof SnpReport['tcb']): string => describeTcb(parseTcb(report.tcb[name], product));
  return {
    product,
    reportVersion: report.version,
    signedBy: endorsement.kind,
    ...(endorsement.cspId === undefined ? {} : { provider: endorsement.cspId }),
    ...(cpuid === undefined
      ? {}
      : { cpuid: `family ${cpuid.family}, model ${cpuid.model}, stepping ${cpuid.stepping}` }),
    chipId: toHex(report.chipId),
    vmpl: report.vmpl,
    guestSvn: report.guestSvn,
    guestAbi: guestPolicy.abi,
    debug: guestPolicy.debug,
    migrationAgent: guestPolicy.migrationAgent,
    smt: guestPolicy.smt,
    singleSocket: guestPolicy.singleSocket,
    platformInfo: `0x${report.platformInfo.toString(16)}`,
    firmware: firmware.current,
    firmwareCommitted: firmware.committed,
    tcbCurrent: tcb('current'),
    tcbReported: tcb('reported'),
    tcbCommitted: tcb('committed'),
    tcbLaunch: tcb('launch'),
    reportData: toHex(report.reportData),
    hostData: toHex(report.hostData),
    familyId: toHex(report.familyId),
    imageId: toHex(report.imageId),
    idKeyDigest: toHex(report.idKeyDigest),
    authorKeyDigest: toHex(report.authorKeyDigest),
    authorKeyEnabled: report.authorKeyEnabled,
  };
}
