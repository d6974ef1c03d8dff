import { wholeDays } from '../../clock/index.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { describeTcb, isTcbAtLeast, parseTcb, type SnpTcb } from './tcb.ts';
import type { SnpRules } from './rules.ts';
import type { VerifiedSnpReport } from './verify-report.ts';

/** Checks that the report was created for this session. */
export function checkSnpBinding({ report, checks }: VerifiedSnpReport, binding: Uint8Array): void {
  checks.require('snp-binding', equalBytes(report.reportData, binding), {
    expected: toHex(binding),
    actual: toHex(report.reportData),
  });
}

/** Compares a verified report with the policy. Throws AttestationError for the first violation. */
export function checkSnpPolicy(genuine: VerifiedSnpReport, rules: SnpRules, nowMs: number): void {
  checkTcb(genuine, rules);
  checkGuestPolicy(genuine, rules);
  checkLauncher(genuine, rules);
  checkCollateral(genuine, rules, nowMs);
}

function checkTcb({ report, product, checks }: VerifiedSnpReport, rules: SnpRules): void {
  const minimum = rules.minimumTcb.get(product);
  checks.require('snp-product-not-allowed', minimum !== undefined, {
    expected: [...rules.minimumTcb.keys()].join(' or '),
    actual: product,
  });
  const tcb = (name: keyof typeof report.tcb): SnpTcb => parseTcb(report.tcb[name], product);
  for (const name of ['reported', 'committed', 'launch'] as const) {
    const actual = tcb(name);
    checks.require(`snp-tcb-${name}`, minimum !== undefined && isTcbAtLeast(actual, minimum), {
      expected: minimum === undefined ? '' : `at least ${describeTcb(minimum)}`,
      actual: describeTcb(actual),
    });
  }
  const current = tcb('current');
  checks.require(
    'snp-tcb-order',
    isTcbAtLeast(current, tcb('reported')) && isTcbAtLeast(current, tcb('committed')),
    {
      expected: `at most ${describeTcb(current)}`,
      actual: `${describeTcb(tcb('reported'))}; ${describeTcb(tcb('committed'))}`,
    },
  );
  const isCommitted =
    equalBytes(report.tcb.current, report.tcb.committed) &&
    report.firmware.current === report.firmware.committed;
  checks.require('snp-firmware-provisional', isCommitted || rules.allowProvisionalFirmware, {
    expected: report.firmware.committed,
    actual: report.firmware.current,
  });
}

function checkGuestPolicy({ report, endorsement, checks }: VerifiedSnpReport, rules: SnpRules): void {
  const { guestPolicy, vmpl } = report;
  checks.require('snp-debug', rules.allowDebug || !guestPolicy.debug, {
    expected: rules.allowDebug,
    actual: guestPolicy.debug,
  });
  checks.require('snp-migration', rules.allowMigrationAgent || !guestPolicy.migrationAgent, {
    expected: rules.allowMigrationAgent,
    actual: guestPolicy.migrationAgent,
  });
  checks.require('snp-smt', rules.allowSmt || !guestPolicy.smt, {
    expected: rules.allowSmt,
    actual: guestPolicy.smt,
  });
  checks.require('snp-vmpl', vmpl <= rules.maxVmpl, { expected: `at most ${rules.maxVmpl}`, actual: vmpl });
  if (endorsement.cspId !== undefined) {
    checks.require('snp-csp', rules.cspIds.includes(endorsement.cspId), {
      expected: rules.cspIds.join(' or ') || 'no provider key',
      actual: endorsement.cspId,
    });
  }
}

function checkLauncher({ report, checks }: VerifiedSnpReport, rules: SnpRules): void {
  const compare = (
    code: 'snp-author-key' | 'snp-id-key' | 'snp-host-data',
    accepted: readonly string[] | undefined,
    field: { readonly value: Uint8Array; readonly isSet: boolean },
  ): void => {
    const actual = toHex(field.value);
    if (accepted === undefined) return checks.skip(code, { actual });
    checks.require(code, field.isSet && accepted.includes(actual), {
      expected: accepted.join(' or '),
      actual,
    });
  };
  compare('snp-author-key', rules.authorKeys, {
    value: report.authorKeyDigest,
    isSet: report.authorKeyEnabled,
  });
  compare('snp-id-key', rules.idKeys, { value: report.idKeyDigest, isSet: true });
  compare('snp-host-data', rules.hostData, { value: report.hostData, isSet: true });
}

function checkCollateral({ crlIssuedMs, checks }: VerifiedSnpReport, rules: SnpRules, nowMs: number): void {
  if (crlIssuedMs === undefined) {
    if (rules.revocation === 'required')
      throw checks.refusal('snp-revocation', { actual: 'no CRL of the root' });
    return checks.skip('snp-revocation', { actual: 'no CRL of the root' });
  }
  checks.require('snp-revocation', true);
  checks.require('snp-collateral-age', nowMs - crlIssuedMs <= rules.maxCollateralAgeMs, {
    expected: `at most ${wholeDays(rules.maxCollateralAgeMs)} days`,
    actual: `${wholeDays(nowMs - crlIssuedMs)} days`,
  });
}
