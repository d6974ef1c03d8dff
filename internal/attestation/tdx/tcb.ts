import { equalBytes, isZero, toHex } from '../bytes.ts';
import type { CheckList } from '../check-list.ts';
import type { EnclaveReport } from './enclave-report.ts';
import type { TdxErrorCode } from './errors.ts';
import type { IsvLevel, QeIdentity, TcbInfo, TcbLevel } from './intel-json.ts';
import type { PckPlatform } from './pck.ts';
import type { TdReport } from './report.ts';
import type { TdxTcbStatus } from './rules.ts';

/** The TCB status of a platform: the worst of platform, TDX module and quoting enclave. */
export interface TdxTcb {
  readonly status: TdxTcbStatus;
  /** TCB date of the oldest component. */
  readonly dateMs: number;
  readonly advisories: readonly string[];
}

type Checks = CheckList<TdxErrorCode>;

/**
 * Evaluates a TCB as Intel's quote verification library does (PCS API v4, "TCB level evaluation"): the highest level
 * that the platform reaches in all SGX components, PCESVN and TDX components; the level of the TDX module by its own
 * identity; the level of the quoting enclave; then the worst of them.
 */
export function evaluateTcb(
  {
    report,
    platform,
    qeReport,
  }: { readonly report: TdReport; readonly platform: PckPlatform; readonly qeReport: EnclaveReport },
  { tcbInfo, qeIdentity }: { readonly tcbInfo: TcbInfo; readonly qeIdentity: QeIdentity },
  checks: Checks,
): TdxTcb {
  checks.require('tdx-tcb-info', equalBytes(tcbInfo.pceId, platform.pceId), {
    subject: 'pce-id',
    expected: `PCE id ${toHex(tcbInfo.pceId)}`,
    actual: `PCE id ${toHex(platform.pceId)}`,
  });
  checkModule(report, tcbInfo, checks);
  checkQe(qeReport, qeIdentity, checks);
  const qe = levelOf(qeIdentity.tcbLevels, qeReport.isvSvn, {
    subject: 'quoting-enclave',
    what: 'quoting enclave',
    checks,
  });
  const atLaunch = converge(evaluateSvn(report.teeTcbSvn, platform, { when: 'launch', tcbInfo, checks }), [
    qe,
  ]);
  const now =
    report.teeTcbSvn2 &&
    converge(evaluateSvn(report.teeTcbSvn2, platform, { when: 'now', tcbInfo, checks }), [qe]);
  const isRevoked = atLaunch.status === 'Revoked' || now?.status === 'Revoked';
  const advisories = atLaunch.advisories.join(' ');
  checks.require('tdx-tcb-revoked', !isRevoked, {
    actual: isRevoked ? `Revoked ${advisories}` : atLaunch.status,
  });
  return now === undefined ? atLaunch : { ...atLaunch, status: relaunchStatus(atLaunch.status, now.status) };
}

/** Evaluates one of the two TCBs of a report: the platform level, combined with the level of the module. */
function evaluateSvn(
  teeTcbSvn: Uint8Array,
  platform: PckPlatform,
  {
    when,
    tcbInfo,
    checks,
  }: { readonly when: 'launch' | 'now'; readonly tcbInfo: TcbInfo; readonly checks: Checks },
): TdxTcb {
  // A TDX module of a version above 0 has an identity of its own in the TCB info; the first two SVNs then belong to the
  // module, not to the platform.
  const version = teeTcbSvn[1] ?? 0;
  const skip = version > 0 ? 2 : 0;
  const level = tcbInfo.tcbLevels
    .toSorted(compareLevels)
    .find(
      ({ tcb }) =>
        isAtLeast(platform.cpuSvn, tcb.sgxtcbcomponents) &&
        platform.pceSvn >= tcb.pcesvn &&
        isAtLeast([...teeTcbSvn].slice(skip), tcb.tdxtcbcomponents.slice(skip)),
    );
  checks.require('tdx-tcb-level', level !== undefined, {
    subject: `platform-${when}`,
    actual: describeSvn(platform, teeTcbSvn),
  });
  const base = toTcb(level as TcbLevel);
  const identity = moduleIdentity(tcbInfo, version);
  if (identity === undefined) return base;
  return converge(base, [
    levelOf(identity.tcbLevels, teeTcbSvn[0] ?? 0, {
      subject: `module-${when}`,
      what: `TDX module ${identity.id}`,
      checks,
    }),
  ]);
}

/** Sorts like Intel's library, independent of the JSON text: highest SGX components first, then PCESVN, then TDX. */
function compareLevels(a: TcbLevel, b: TcbLevel): number {
  return (
    compareComponents(b.tcb.sgxtcbcomponents, a.tcb.sgxtcbcomponents) ||
    b.tcb.pcesvn - a.tcb.pcesvn ||
    compareComponents(b.tcb.tdxtcbcomponents, a.tcb.tdxtcbcomponents)
  );
}

function compareComponents(a: readonly number[], b: readonly number[]): number {
  return Buffer.compare(Uint8Array.from(a), Uint8Array.from(b));
}

function isAtLeast(actual: readonly number[], minimum: readonly number[]): boolean {
  return (
    actual.length === minimum.length && actual.every((svn, index) => svn >= (minimum[index] ?? Infinity))
  );
}

/** The highest TCB level that a module or enclave with this ISVSVN reaches. */
function levelOf(
  levels: readonly IsvLevel[],
  isvSvn: number,
  { subject, what, checks }: { readonly subject: string; readonly what: string; readonly checks: Checks },
): TdxTcb {
  const level = levels
    .toSorted((a, b) => b.tcb.isvsvn - a.tcb.isvsvn)
    .find(({ tcb }) => isvSvn >= tcb.isvsvn);
  checks.require('tdx-tcb-level', level !== undefined, {
    subject,
    actual: `${what}: ISVSVN ${isvSvn}`,
  });
  return toTcb(level as IsvLevel);
}

/** MRSIGNERSEAM and SEAMATTRIBUTES must match the identity of the module, or of the first module for version 0. */
function checkModule(report: TdReport, tcbInfo: TcbInfo, checks: Checks): void {
  const version = report.teeTcbSvn[1] ?? 0;
  const identity = version === 0 ? tcbInfo.tdxModule : moduleIdentity(tcbInfo, version);
  const isRight =
    identity !== undefined &&
    equalBytes(report.mrSignerSeam, identity.mrsigner) &&
    isMasked(report.seamAttributes, identity.attributes, identity.attributesMask) &&
    isZero(report.seamAttributes.map((byte, index) => byte & ~(identity.attributesMask[index] ?? 0)));
  checks.require('tdx-module-identity', isRight, {
    expected: identity === undefined ? 'an identity in the TCB info' : toHex(identity.mrsigner),
    actual: `${moduleId(version)} signed by ${toHex(report.mrSignerSeam)}`,
  });
}

function checkQe(qeReport: EnclaveReport, identity: QeIdentity, checks: Checks): void {
  const isRight =
    equalBytes(qeReport.mrSigner, identity.mrsigner) &&
    qeReport.isvProdId === identity.isvprodid &&
    isMasked(qeReport.miscSelect, identity.miscselect, identity.miscselectMask) &&
    isMasked(qeReport.attributes, identity.attributes, identity.attributesMask);
  checks.require('tdx-qe-identity', isRight, {
    expected: `${toHex(identity.mrsigner)}, product ${identity.isvprodid}`,
    actual: `${toHex(qeReport.mrSigner)}, product ${qeReport.isvProdId}`,
  });
}

function moduleIdentity(tcbInfo: TcbInfo, version: number) {
  return version === 0
    ? undefined
    : tcbInfo.tdxModuleIdentities.find((each) => each.id.toUpperCase() === moduleId(version));
}

function moduleId(version: number): string {
  return `TDX_${version.toString(16).toUpperCase().padStart(2, '0')}`;
}

function isMasked(actual: Uint8Array, expected: Uint8Array, mask: Uint8Array): boolean {
  return actual.every(
    (byte, index) => (byte & (mask[index] ?? 0)) === ((expected[index] ?? 0) & (mask[index] ?? 0)),
  );
}

function toTcb(level: TcbLevel | IsvLevel): TdxTcb {
  return { status: level.tcbStatus, dateMs: level.tcbDate, advisories: level.advisoryIDs };
}

/**
 * Combines the TCB of the platform with those of its parts. Only a part that is out of date or revoked makes the status
 * worse.
 */
function converge(platform: TdxTcb, partsOfIt: readonly TdxTcb[]): TdxTcb {
  return partsOfIt.reduce(
    (whole, part) => ({
      status: worse(whole.status, part.status),
      dateMs: Math.min(whole.dateMs, part.dateMs),
      advisories: [...new Set([...whole.advisories, ...part.advisories])],
    }),
    platform,
  );
}

function worse(whole: TdxTcbStatus, part: TdxTcbStatus): TdxTcbStatus {
  if (part === 'Revoked') return 'Revoked';
  if (part !== 'OutOfDate') return whole;
  if (whole === 'UpToDate' || whole === 'SWHardeningNeeded') return 'OutOfDate';
  return needsConfiguration(whole) ? 'OutOfDateConfigurationNeeded' : whole;
}

/** The status of a TD that was launched on an old TCB: if the TCB is current now, launching the TD again is enough. */
function relaunchStatus(atLaunch: TdxTcbStatus, now: TdxTcbStatus): TdxTcbStatus {
  const isGoodNow = !now.startsWith('OutOfDate') && now !== 'Revoked';
  if (!atLaunch.startsWith('OutOfDate') || !isGoodNow) return atLaunch;
  return needsConfiguration(atLaunch) || needsConfiguration(now)
    ? 'TDRelaunchAdvisedConfigurationNeeded'
    : 'TDRelaunchAdvised';
}

function needsConfiguration(status: TdxTcbStatus): boolean {
  return status.includes('Configuration');
}

function describeSvn(platform: PckPlatform, teeTcbSvn: Uint8Array): string {
  return `CPUSVN ${platform.cpuSvn.join('.')}, PCESVN ${platform.pceSvn}, TEE TCB SVN ${[...teeTcbSvn].join('.')}`;
}
