import { defineErrors, fault } from '../../errors/index.ts';
import { REFRESH_COLLATERAL } from '../x509/index.ts';

const refusal = fault.peer.refused;
const ALTERED =
  'Create a new quote on the machine. If that fails too, compare the versions of kernel, TDX module and agent with the versions that this release supports.';
const HOST =
  'Update firmware, microcode and TDX module of the host as the Intel advisories listed under `actual` describe.';

/** The fix of a check that `key` in the `tdx` section of the policy can relax. */
function allow(key: string): string {
  return `If this is intended, allow it with \`${key}\` in the \`tdx\` section of the attestation policy.`;
}

/**
 * Refusals of Intel TDX evidence, one for each check. Names follow Intel's DCAP quote library reference and the TDX
 * module ABI.
 */
export const tdxErrors = defineErrors({
  'tdx-document-malformed': refusal('The evidence document that contains the quote is malformed.', ALTERED),
  'tdx-quote-malformed': refusal(
    'A length field in the quote is wrong: it exceeds the quote, leaves a gap, or the quote is truncated.',
    ALTERED,
  ),
  'tdx-quote-version': refusal('The version of the quote is neither 4 nor 5.', ALTERED),
  'tdx-tee-type': refusal(
    'The quote was not made by TDX. Quotes of SGX enclaves are not accepted for machines.',
    ALTERED,
  ),
  'tdx-key-type': refusal('The attestation key is not an ECDSA P-256 key.', ALTERED),
  'tdx-qe-vendor': refusal('The quoting enclave was not made by Intel.', ALTERED),
  'tdx-body-type': refusal('The size of the TD report does not match its type.', ALTERED),
  'tdx-tail': refusal('The quote is followed by bytes other than zero.', ALTERED),
  'tdx-certification-type': refusal(
    'The quote does not contain the certificates of its platform.',
    'Configure the quoting service of the host to include the PCK certificate chain (certification data of type 5 in type 6).',
  ),
  'tdx-pck-chain': refusal(
    'The certificates in the quote are not a PCK certificate, its CA and the Intel root.',
    ALTERED,
  ),
  'tdx-revocation': refusal(
    'A certificate of the platform was revoked, or the collateral has no CRL for it.',
    REFRESH_COLLATERAL,
  ),
  'tdx-pck-extension': refusal(
    'The Intel extension of the PCK certificate is missing, duplicate or malformed.',
    ALTERED,
  ),
  'tdx-attestation-key': refusal('The attestation key is not a point on P-256.', ALTERED),
  'tdx-qe-report-signature': refusal(
    'The report of the quoting enclave was not signed by the PCK of the platform.',
    ALTERED,
  ),
  'tdx-qe-report-data': refusal('The quoting enclave certifies another attestation key.', ALTERED),
  'tdx-signature': refusal('The quote was not signed by the attestation key.', ALTERED),
  'tdx-collateral-missing': refusal(
    'The collateral does not contain the TCB info or QE identity for this platform.',
    REFRESH_COLLATERAL,
  ),
  'tdx-collateral-malformed': refusal(
    'The TCB info or QE identity does not match its schema.',
    REFRESH_COLLATERAL,
  ),
  'tdx-collateral-signature': refusal(
    'The signature of the TCB info or QE identity does not match its text: it was altered or reformatted.',
    REFRESH_COLLATERAL,
  ),
  'tdx-collateral-signer': refusal(
    'The TCB info or QE identity was not signed by the TCB signing certificate of Intel.',
    REFRESH_COLLATERAL,
  ),
  'tdx-collateral-future': refusal(
    'The issue date of the TCB info or QE identity is in the future.',
    'Compare the clock of this machine with the issue date. Correct the clock if it is behind.',
  ),
  'tdx-collateral-expired': refusal(
    'The TCB info or QE identity is expired (past its next update).',
    REFRESH_COLLATERAL,
  ),
  'tdx-collateral-age': refusal('The collateral is older than the policy allows.', REFRESH_COLLATERAL),
  'tdx-evaluation-number': refusal(
    'The collateral comes from an older TCB evaluation than the evaluation that was used before or that the policy requires.',
    REFRESH_COLLATERAL,
  ),
  'tdx-tcb-info': refusal('The TCB info is for another platform or another technology.', REFRESH_COLLATERAL),
  'tdx-qe-identity': refusal('The quoting enclave does not match the QE identity of Intel.', HOST),
  'tdx-module-identity': refusal('The TDX module does not match the TCB info of Intel.', HOST),
  'tdx-tcb-level': refusal('The TCB of the platform is below every level in the TCB info of Intel.', HOST),
  'tdx-tcb-revoked': refusal(
    'Intel revoked this TCB level: attackers may know the keys of such platforms.',
    HOST,
  ),
  'tdx-tcb-status': refusal('The policy does not accept the TCB status of the platform.', HOST),
  'tdx-debug': refusal(
    'The host can read and change the memory of the machine (debug or profiling attributes).',
    allow('allowDebug'),
  ),
  'tdx-attributes': refusal('A reserved attribute bit of the TD is set.', ALTERED),
  'tdx-sept-ve': refusal(
    'The host can inject exceptions by removing memory pages (SEPT_VE_DISABLE is not set).',
    allow('requireSeptVeDisable: false'),
  ),
  'tdx-migration': refusal('A migration TD can move the machine to another host.', allow('allowMigration')),
  'tdx-service-td': refusal('A service TD is bound to the machine.', allow('allowServiceTd')),
  'tdx-config-id': refusal('The policy does not accept the value of MRCONFIGID.', allow('mrConfigId')),
  'tdx-owner': refusal('The policy does not accept the value of MROWNER.', allow('mrOwner')),
  'tdx-owner-config': refusal(
    'The policy does not accept the value of MROWNERCONFIG.',
    allow('mrOwnerConfig'),
  ),
  'tdx-binding': refusal(
    'The report data does not match this session: the quote was replayed, relayed, or made for another verifier.',
    'Repeat the command to get a new quote. If it fails again, look for a proxy between the two ends.',
  ),
  'tdx-event-log': refusal(
    'The event log is missing although the policy requires it, or does not replay to the runtime registers (RTMR) of the quote.',
    'Check that the kernel provides /sys/firmware/acpi/tables/data/CCEL, and that no program extends an RTMR without logging it.',
  ),
});

/** Codes of TDX refusals. */
export type TdxErrorCode = keyof typeof tdxErrors;
