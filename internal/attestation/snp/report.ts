import { P384_ORDER } from '../../crypto/index.ts';
import { CheckList } from '../check-list.ts';
import { isZero, LittleEndianReader } from '../bytes.ts';
import { snpErrors, type SnpErrorCode } from './errors.ts';

/** ATTESTATION_REPORT (AMD 56860, table 23), parsed and not verified. */
export interface SnpReport {
  readonly version: number;
  readonly guestSvn: number;
  readonly guestPolicy: GuestPolicy;
  readonly familyId: Uint8Array;
  readonly imageId: Uint8Array;
  readonly vmpl: number;
  readonly platformInfo: bigint;
  readonly signingKey: 'vcek' | 'vlek';
  readonly maskChipKey: boolean;
  readonly authorKeyEnabled: boolean;
  /** 64 bytes that the machine chose: the binding. */
  readonly reportData: Uint8Array;
  /** 48 bytes: the launch digest. */
  readonly measurement: Uint8Array;
  readonly hostData: Uint8Array;
  readonly idKeyDigest: Uint8Array;
  readonly authorKeyDigest: Uint8Array;
  readonly reportId: Uint8Array;
  /** TCB_VERSION, 8 bytes each; their layout depends on the product. */
  readonly tcb: Readonly<Record<'current' | 'reported' | 'committed' | 'launch', Uint8Array>>;
  /** undefined in reports before version 3. */
  readonly cpuid: { readonly family: number; readonly model: number; readonly stepping: number } | undefined;
  readonly chipId: Uint8Array;
  /** `major.minor.build` of the firmware. */
  readonly firmware: { readonly current: string; readonly committed: string };
  /** undefined in reports before version 5. */
  readonly mitigations: { readonly launch: bigint; readonly current: bigint } | undefined;
  /** The bytes that the signature covers. */
  readonly signed: Uint8Array;
  /** r then s, big-endian, 48 bytes each. */
  readonly signature: Uint8Array;
}

/** The guest policy, POLICY (56860, table 9). */
export interface GuestPolicy {
  readonly abi: string;
  readonly smt: boolean;
  readonly migrationAgent: boolean;
  readonly debug: boolean;
  readonly singleSocket: boolean;
  readonly cxl: boolean;
  readonly memAes256Xts: boolean;
  readonly raplDisabled: boolean;
  readonly ciphertextHiding: boolean;
  readonly pageSwapDisabled: boolean;
}

/** Size of a report. */
export const SNP_REPORT_BYTES = 0x4a0;

const SIGNATURE_OFFSET = 0x2a0;
const SCALAR_FIELD_BYTES = 72;
const P384_BYTES = 48;
const ECDSA_P384_SHA384 = 1;
const HIGHEST_POLICY_BIT = 25n;

type Checks = CheckList<SnpErrorCode>;

/**
 * Parses a report. Reserved fields and the padding of the signature must be zero, so that no byte of a report can be altered
 * without a refusal. Throws AttestationError.
 */
export function parseReport(
  bytes: Uint8Array,
  checks: Checks = new CheckList(snpErrors, 'reading an SNP report'),
): SnpReport {
  checks.require('snp-report-size', bytes.length === SNP_REPORT_BYTES, {
    expected: SNP_REPORT_BYTES,
    actual: bytes.length,
  });
  const at = new LittleEndianReader(bytes);
  const version = at.u32(0x00);
  checks.require('snp-report-version', version >= 2 && version <= 5, { expected: '2 to 5', actual: version });
  const algorithm = at.u32(0x34);
  checks.require('snp-signature-algorithm', algorithm === ECDSA_P384_SHA384, {
    expected: ECDSA_P384_SHA384,
    actual: algorithm,
  });
  checkReserved(at, version, checks);
  return {
    version,
    guestSvn: at.u32(0x04),
    guestPolicy: parseGuestPolicy(at.u64(0x08), checks),
    familyId: at.bytes(0x10, 16),
    imageId: at.bytes(0x20, 16),
    vmpl: at.u32(0x30),
    platformInfo: at.u64(0x40),
    ...parseFlags(at.u32(0x48), checks),
    reportData: at.bytes(0x50, 64),
    measurement: at.bytes(0x90, 48),
    hostData: at.bytes(0xc0, 32),
    idKeyDigest: at.bytes(0xe0, 48),
    authorKeyDigest: at.bytes(0x110, 48),
    reportId: at.bytes(0x140, 32),
    tcb: {
      current: at.bytes(0x38, 8),
      reported: at.bytes(0x180, 8),
      committed: at.bytes(0x1e0, 8),
      launch: at.bytes(0x1f0, 8),
    },
    cpuid: version >= 3 ? { family: at.u8(0x188), model: at.u8(0x189), stepping: at.u8(0x18a) } : undefined,
    chipId: at.bytes(0x1a0, 64),
    firmware: { current: firmware(at, 0x1e8), committed: firmware(at, 0x1ec) },
    mitigations: version >= 5 ? { launch: at.u64(0x1f8), current: at.u64(0x200) } : undefined,
    signed: at.bytes(0, SIGNATURE_OFFSET),
    signature: parseSignature(at, checks),
  };
}

/** The start of the reserved fields depends on the version. */
function checkReserved(at: LittleEndianReader, version: number, checks: Checks): void {
  const cpuidEnd = version >= 3 ? 0x18b : 0x188;
  const mitigationEnd = version >= 5 ? 0x208 : 0x1f8;
  const signatureEnd = SIGNATURE_OFFSET + 2 * SCALAR_FIELD_BYTES;
  const reserved = [
    [0x4c, 0x50],
    [cpuidEnd, 0x1a0],
    [0x1eb, 0x1ec],
    [0x1ef, 0x1f0],
    [mitigationEnd, SIGNATURE_OFFSET],
    [signatureEnd, SNP_REPORT_BYTES],
  ] as const;
  const dirty = reserved.find(([from, to]) => !isZero(at.bytes(from, to - from)));
  checks.require(
    'snp-reserved-not-zero',
    dirty === undefined,
    dirty && { actual: `not zero between 0x${dirty[0].toString(16)} and 0x${dirty[1].toString(16)}` },
  );
}

function parseGuestPolicy(policy: bigint, checks: Checks): GuestPolicy {
  const bit = (index: bigint): boolean => ((policy >> index) & 1n) === 1n;
  checks.require('snp-guest-policy-malformed', bit(17n) && policy >> (HIGHEST_POLICY_BIT + 1n) === 0n, {
    actual: `0x${policy.toString(16)}`,
  });
  return {
    abi: `${(policy >> 8n) & 0xffn}.${policy & 0xffn}`,
    smt: bit(16n),
    migrationAgent: bit(18n),
    debug: bit(19n),
    singleSocket: bit(20n),
    cxl: bit(21n),
    memAes256Xts: bit(22n),
    raplDisabled: bit(23n),
    ciphertextHiding: bit(24n),
    pageSwapDisabled: bit(25n),
  };
}

/** FLAGS: bit 0 author key, bit 1 masked chip key, bits 2 to 4 which key signed (0 VCEK, 1 VLEK). */
function parseFlags(flags: number, checks: Checks) {
  checks.require('snp-signing-key', flags < 0x20 && (flags >> 2 === 0 || flags >> 2 === 1), {
    expected: '0 (VCEK) or 1 (VLEK)',
    actual: flags >>> 2,
  });
  return {
    authorKeyEnabled: (flags & 1) !== 0,
    maskChipKey: (flags & 2) !== 0,
    signingKey: flags >> 2 === 0 ? 'vcek' : 'vlek',
  } as const;
}

/** Reads r and s: two little-endian fields of 72 bytes, of which 48 are used. */
function parseSignature(at: LittleEndianReader, checks: Checks): Uint8Array {
  const scalars = [SIGNATURE_OFFSET, SIGNATURE_OFFSET + SCALAR_FIELD_BYTES].map((offset) => ({
    scalar: Buffer.from(at.bytes(offset, P384_BYTES)).reverse(),
    padding: at.bytes(offset + P384_BYTES, SCALAR_FIELD_BYTES - P384_BYTES),
  }));
  const isInRange = scalars.every(({ scalar, padding }) => {
    const value = BigInt(`0x${scalar.toString('hex')}`);
    return value > 0n && value < P384_ORDER && isZero(padding);
  });
  checks.require('snp-signature-range', isInRange);
  return Buffer.concat(scalars.map(({ scalar }) => scalar));
}

function firmware(at: LittleEndianReader, offset: number): string {
  return `${at.u8(offset + 2)}.${at.u8(offset + 1)}.${at.u8(offset)}`;
}
