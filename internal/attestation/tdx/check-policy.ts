import { wholeDays } from '../../clock/index.ts';
import { equalBytes, isZero, toHex } from '../bytes.ts';
import type { CheckList } from '../check-list.ts';
import type { TdxErrorCode } from './errors.ts';
import type { FieldRule, TdxRules } from './rules.ts';
import type { VerifiedTdxQuote, TdxAppraisedTcb } from './verify-quote.ts';

/** Checks that the quote was created for this session. */
export function checkTdxBinding({ quote, checks }: VerifiedTdxQuote, binding: Uint8Array): void {
  checks.require('tdx-binding', equalBytes(quote.report.reportData, binding), {
    expected: toHex(binding),
    actual: toHex(quote.report.reportData),
  });
}

/** Compares a verified quote with the policy. Throws AttestationError for the first violation. */
export function checkTdxPolicy(genuine: VerifiedTdxQuote, rules: TdxRules, nowMs: number): void {
  const { checks, tcb } = genuine;
  if (tcb === undefined) throw checks.refusal('tdx-collateral-missing', { actual: 'no collateral' });
  checkCollateral(tcb, rules, { checks, nowMs });
  checks.require('tdx-tcb-status', tcb.status !== 'Revoked' && rules.tcbStatuses.includes(tcb.status), {
    expected: rules.tcbStatuses.join(' or '),
    actual: [tcb.status, ...tcb.advisories].join(' '),
  });
  checkAttributes(genuine, rules);
  checkFields(genuine, rules);
}

function checkCollateral(
  { tcbInfo, qeIdentity }: TdxAppraisedTcb,
  rules: TdxRules,
  { checks, nowMs }: { readonly checks: CheckList<TdxErrorCode>; readonly nowMs: number },
): void {
  const documents = [
    ['tcb-info', tcbInfo],
    ['qe-identity', qeIdentity],
  ] as const;
  for (const [subject, document] of documents) {
    const ageMs = nowMs - document.issueDate;
    checks.require('tdx-collateral-age', ageMs <= rules.maxCollateralAgeMs, {
      subject,
      expected: `at most ${wholeDays(rules.maxCollateralAgeMs)} days`,
      actual: `${wholeDays(ageMs)} days`,
    });
    checks.require(
      'tdx-evaluation-number',
      document.tcbEvaluationDataNumber >= rules.minimumEvaluationNumber,
      {
        subject: `${subject}-policy`,
        expected: `at least ${rules.minimumEvaluationNumber}`,
        actual: document.tcbEvaluationDataNumber,
      },
    );
  }
}

function checkAttributes({ quote: { report }, checks }: VerifiedTdxQuote, rules: TdxRules): void {
  const { attributes, mrServiceTd } = report;
  const raw = `0x${attributes.raw.toString(16)}`;
  checks.require('tdx-debug', rules.allowDebug || !attributes.underDebug, {
    expected: rules.allowDebug,
    actual: attributes.underDebug,
  });
  checks.require('tdx-attributes', !attributes.hasReservedBits, { actual: raw });
  checks.require('tdx-migration', rules.allowMigration || !attributes.migratable, {
    expected: rules.allowMigration,
    actual: attributes.migratable,
  });
  checks.require('tdx-sept-ve', attributes.septVeDisable || !rules.requireSeptVeDisable, { actual: raw });
  const isServiceTd = attributes.serviceTdExtension || (mrServiceTd !== undefined && !isZero(mrServiceTd));
  checks.require('tdx-service-td', rules.allowServiceTd || !isServiceTd, {
    expected: rules.allowServiceTd,
    actual: isServiceTd,
  });
}

function checkFields({ quote: { report }, checks }: VerifiedTdxQuote, rules: TdxRules): void {
  const compare = (
    code: 'tdx-config-id' | 'tdx-owner' | 'tdx-owner-config',
    rule: FieldRule,
    value: Uint8Array,
  ): void => {
    const actual = toHex(value);
    if (rule === 'any') return checks.skip(code, { actual });
    const expected = rule === 'zero' ? 'zero' : rule.join(' or ');
    checks.require(code, rule === 'zero' ? isZero(value) : rule.includes(actual), { expected, actual });
  };
  compare('tdx-config-id', rules.mrConfigId, report.mrConfigId);
  compare('tdx-owner', rules.mrOwner, report.mrOwner);
  compare('tdx-owner-config', rules.mrOwnerConfig, report.mrOwnerConfig);
}
