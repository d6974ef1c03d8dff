import { defineErrors } from '../../errors/index.ts';
import { refusedCheck as refusal } from '../errors.ts';

const ALTERED = 'The quote was altered, cut off, or comes from software newer than this version knows.';
const REFRESH = 'Refresh the collateral bundle.';
const HOST =
  'Update firmware, microcode and TDX module of the host as Intel’s advisories in the message say.';
const POLICY = 'If it is meant to be so, allow it in the `tdx` section of the attestation policy.';

/** Refusals of Intel TDX evidence, by check. Names follow Intel's DCAP quote library reference and the TDX module ABI. */
export const tdxErrors = defineErrors({
  'tdx-document-malformed': refusal('The evidence document around the quote is not well-formed.', ALTERED),
  'tdx-quote-malformed': refusal(
    'A length in the quote does not fit: it overruns, leaves a gap, or is cut off.',
    ALTERED,
  ),
  'tdx-quote-version': refusal('The version of the quote is neither 4 nor 5.', ALTERED),
  'tdx-tee-type': refusal('The quote is not one of TDX; quotes of SGX enclaves are no machines.', ALTERED),
  'tdx-key-type': refusal('The attestation key is not ECDSA on P-256.', ALTERED),
  'tdx-qe-vendor': refusal('The quoting enclave is not Intel’s.', ALTERED),
  'tdx-body-type': refusal('The type of the TD report and its size do not belong together.', ALTERED),
  'tdx-tail': refusal('There are bytes other than zero after the quote.', ALTERED),
  'tdx-certification-type': refusal(
    'The quote does not carry the certificates of its platform.',
    'Let the host’s quoting service include the PCK certificate chain (certification data of type 5 in type 6).',
  ),
  'tdx-pck-chain': refusal(
    'The certificates of the platform are not a PCK certificate, its authority and Intel’s root.',
    ALTERED,
  ),
  'tdx-revocation': refusal(
    'A certificate of the platform was revoked, or there is no list to see.',
    REFRESH,
  ),
  'tdx-pck-extension': refusal(
    'Intel’s extension of the PCK certificate is missing, double or malformed.',
    ALTERED,
  ),
  'tdx-attestation-key': refusal('The attestation key is not a point on P-256.', ALTERED),
  'tdx-qe-report-signature': refusal(
    'The report of the quoting enclave was not signed by the platform’s PCK.',
    ALTERED,
  ),
  'tdx-qe-report-data': refusal('The quoting enclave vouches for another attestation key.', ALTERED),
  'tdx-signature': refusal('The quote was not signed by the attestation key.', ALTERED),
  'tdx-collateral-missing': refusal(
    'Intel’s signed data for this platform is not in the collateral.',
    REFRESH,
  ),
  'tdx-collateral-malformed': refusal(
    'Intel’s signed data does not have the structure it should have.',
    REFRESH,
  ),
  'tdx-collateral-signature': refusal(
    'TCB info or QE identity was not signed as it stands: altered or written out anew.',
    REFRESH,
  ),
  'tdx-collateral-signer': refusal(
    'TCB info or QE identity was signed by another certificate than Intel’s TCB signing certificate.',
    REFRESH,
  ),
  'tdx-collateral-future': refusal(
    'TCB info or QE identity is from the future.',
    'Compare the clock of this machine with the issue date.',
  ),
  'tdx-collateral-expired': refusal('TCB info or QE identity is past its next update.', REFRESH),
  'tdx-collateral-age': refusal('The collateral is older than the policy allows.', REFRESH),
  'tdx-evaluation-number': refusal(
    'The collateral is from an older TCB evaluation than one that was seen or is required.',
    REFRESH,
  ),
  'tdx-tcb-info': refusal('The TCB info is for another platform or another technology.', REFRESH),
  'tdx-qe-identity': refusal('The quoting enclave is not the one that Intel’s QE identity describes.', HOST),
  'tdx-module-identity': refusal('The TDX module is not one that Intel’s TCB info describes.', HOST),
  'tdx-tcb-level': refusal('The platform is below every TCB level that Intel still describes.', HOST),
  'tdx-tcb-revoked': refusal(
    'Intel has revoked this TCB level: keys of such platforms are known to strangers.',
    HOST,
  ),
  'tdx-tcb-status': refusal('The TCB status of the platform is not one that the policy accepts.', HOST),
  'tdx-debug': refusal('The host can read and change the machine (debug or profiling attributes).', POLICY),
  'tdx-attributes': refusal('A reserved attribute bit of the TD is set.', ALTERED),
  'tdx-sept-ve': refusal(
    'The host can inject exceptions by taking pages away (SEPT_VE_DISABLE is not set).',
    POLICY,
  ),
  'tdx-migration': refusal('A migration TD can move the machine.', POLICY),
  'tdx-service-td': refusal('A service TD is bound to the machine.', POLICY),
  'tdx-config-id': refusal('MRCONFIGID is not an accepted one.', POLICY),
  'tdx-owner': refusal('MROWNER is not an accepted one.', POLICY),
  'tdx-owner-config': refusal('MROWNERCONFIG is not an accepted one.', POLICY),
  'tdx-binding': refusal(
    'The report data is not the binding of this session: replayed, relayed or made for somebody else.',
    'Ask for fresh evidence.',
  ),
  'tdx-event-log': refusal(
    'The event log does not replay to the runtime registers of the quote.',
    'See that nothing extends an RTMR without logging it.',
  ),
});

export type TdxErrorCode = keyof typeof tdxErrors;
