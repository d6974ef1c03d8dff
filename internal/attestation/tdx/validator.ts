import { checkMachine, checkRegisters, checkSizes, warningsOf } from '../appraise.ts';
import { equalBytes, toHex } from '../bytes.ts';
import { judgingCertificates } from '../chain-refusal.ts';
import { CheckList } from '../check-list.ts';
import { AppraisalError, AttestationError } from '../errors.ts';
import type { MachineIdentity, ValidationContext, Validator, Verdict } from '../verdict.ts';
import type { CertificateCache } from '../x509/index.ts';
import { appraiseTdx, checkTdxBinding } from './appraise.ts';
import { IntelCollateral } from './collateral.ts';
import { tdxErrors } from './errors.ts';
import { decodeTdxEvidence } from './evidence.ts';
import type { TdReport } from './report.ts';
import type { TdxCollateral, TdxRules } from './rules.ts';
import { verifyTdxQuote, type GenuineTdxQuote, type TdxTrust } from './verify.ts';

/**
 * Replays a CC event log (CCEL): what RTMR0 to RTMR3 must hold if the log is the whole truth. Throws an
 * `AttestationError` for a log that is not well-formed.
 */
export type ReplayRuntimeLog = (log: Uint8Array) => readonly Uint8Array[];

export interface TdxValidatorOptions {
  readonly trust: TdxTrust;
  readonly cache: CertificateCache;
  readonly replayLog: ReplayRuntimeLog;
}

/** Judges TDX evidence: genuine first, then bound to this session, then what the policy wants. */
export class TdxValidator implements Validator {
  readonly variant = 'tdx';
  readonly #options: TdxValidatorOptions;
  /** Prepared once for each bundle; the bundle is replaced as a whole. */
  readonly #prepared = new WeakMap<TdxCollateral, IntelCollateral>();

  constructor(options: TdxValidatorOptions) {
    this.#options = options;
  }

  async validate(evidence: Uint8Array, binding: Uint8Array, context: ValidationContext): Promise<Verdict> {
    checkSizes(evidence, binding);
    const { policy, collateral, nowMs } = context;
    if (policy.tdx === undefined || collateral.tdx === undefined) {
      throw new AppraisalError(
        'attestation-policy-missing',
        'judging a TDX quote: the policy has no section for it',
      );
    }
    const { quote, eventLog } = decodeTdxEvidence(evidence);
    const { trust, cache, replayLog } = this.#options;
    const genuine = verifyTdxQuote(quote, { trust, cache, nowMs, collateral: this.#prepare(collateral.tdx) });
    checkTdxBinding(genuine, binding);
    appraiseTdx(genuine, policy.tdx, nowMs);
    checkEventLog(genuine, eventLog, { rule: policy.tdx.eventLog, replayLog });
    const { checks } = genuine.checks;
    const measurements = tdxMeasurements(genuine.quote.report);
    const machineIdentity = tdxIdentity(genuine);
    checkRegisters(measurements, policy, checks);
    checkMachine(machineIdentity, policy, checks);
    return {
      variant: this.variant,
      accepted: true,
      checks,
      measurements,
      tcb: tdxTcbClaims(genuine),
      machineIdentity,
      claims: tdxClaims(genuine),
      warnings: warningsOf(checks),
      policyVersion: policy.version,
    };
  }

  #prepare(raw: TdxCollateral): IntelCollateral {
    const known = this.#prepared.get(raw) ?? prepareCollateral(raw, this.#options.cache);
    this.#prepared.set(raw, known);
    return known;
  }
}

/** Parses collateral; a malformed certificate or CRL in it refuses with its own code. */
export function prepareCollateral(raw: TdxCollateral, cache: CertificateCache): IntelCollateral {
  return judgingCertificates(
    new CheckList(tdxErrors, 'reading TDX collateral'),
    () => new IntelCollateral(raw, cache),
  );
}

/** A log that comes along must replay to the runtime registers, all four of them. */
export function checkEventLog(
  { quote, checks }: GenuineTdxQuote,
  log: Uint8Array | undefined,
  { rule, replayLog }: { readonly rule: TdxRules['eventLog']; readonly replayLog: ReplayRuntimeLog },
): void {
  if (log === undefined) {
    if (rule === 'required') throw checks.refusal('tdx-event-log', { actual: 'no event log' });
    return checks.skip('tdx-event-log', { actual: 'no event log' });
  }
  const replayed = replayWithChecks(log, checks.checks, replayLog);
  const { rtmrs } = quote.report;
  const wrong = rtmrs.findIndex((rtmr, index) => !equalBytes(rtmr, replayed[index] ?? new Uint8Array()));
  checks.require('tdx-event-log', wrong < 0, {
    ...(wrong < 0 ? {} : { expected: `rtmr${wrong} ${toHex(rtmrs[wrong] ?? new Uint8Array())}` }),
    ...(wrong < 0 ? {} : { actual: toHex(replayed[wrong] ?? new Uint8Array()) }),
  });
}

function replayWithChecks(
  log: Uint8Array,
  checks: Verdict['checks'],
  replayLog: ReplayRuntimeLog,
): readonly Uint8Array[] {
  try {
    return replayLog(log);
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw new AttestationError(tdxErrors, 'tdx-event-log', 'replaying the event log', { cause, checks });
  }
}

/** MRTD and the runtime registers, by the names that policies use. */
export function tdxMeasurements(report: TdReport): ReadonlyMap<string, Uint8Array> {
  const rtmrs = report.rtmrs.map((value, index) => [`rtmr${index}`, Uint8Array.from(value)] as const);
  return new Map([['mrtd', Uint8Array.from(report.mrTd)], ...rtmrs]);
}

/** The platform as Intel registered it, or its processor package where there is no such registration. */
export function tdxIdentity({ platform }: GenuineTdxQuote): MachineIdentity {
  return { kind: 'tdx-platform', id: toHex(platform.platformInstanceId ?? platform.ppid), proof: 'endorsed' };
}

export function tdxTcbClaims({ quote, platform, tcb }: GenuineTdxQuote): NonNullable<Verdict['tcb']> {
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
    cpuSvn: platform.cpuSvn.join('.'),
    pceSvn: platform.pceSvn,
    fmspc: toHex(platform.fmspc),
  };
}

/** Every signed field that a person or a policy may want to see. */
export function tdxClaims({ quote: { version, report }, platform }: GenuineTdxQuote): Verdict['claims'] {
  const { attributes, mrServiceTd, teeTcbSvn2 } = report;
  return {
    quoteVersion: version,
    bodyType: report.bodyType,
    mrSeam: toHex(report.mrSeam),
    mrSignerSeam: toHex(report.mrSignerSeam),
    seamAttributes: toHex(report.seamAttributes),
    tdAttributes: `0x${attributes.raw.toString(16)}`,
    debug: attributes.underDebug,
    migratable: attributes.migratable,
    septVeDisable: attributes.septVeDisable,
    xfam: toHex(report.xfam),
    mrConfigId: toHex(report.mrConfigId),
    mrOwner: toHex(report.mrOwner),
    mrOwnerConfig: toHex(report.mrOwnerConfig),
    reportData: toHex(report.reportData),
    ...(teeTcbSvn2 === undefined ? {} : { teeTcbSvn2: toHex(teeTcbSvn2) }),
    ...(mrServiceTd === undefined ? {} : { mrServiceTd: toHex(mrServiceTd) }),
    ppid: toHex(platform.ppid),
  };
}
