import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const attestErrors = defineErrors({
  'attest-option': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'An option of `cluster attest` has a value of another form, or belongs to evidence of another variant.',
    fix: 'Variants are tpm, sev-snp and tdx; the binding is hex; the time is like 2026-01-31T12:00:00Z; collateral is for sev-snp and tdx, and what belongs to a TPM quote goes to `--endorsements`.',
  },
  'attest-file': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A file named on the command line does not exist or is too large.',
    fix: 'Check the path in the message.',
  },
  'attest-collateral-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A manufacturer’s service did not give a document. What was there before stays in use.',
    fix: 'Try again later; behind a proxy set HTTPS_PROXY, without internet fetch the files elsewhere and give them to `cluster attest collateral`.',
  },
  'attest-collateral-missing': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The workspace has no collateral that could be handed on.',
    fix: 'Fetch it first: `cluster attest collateral refresh --product Milan` or `--fmspc HEX`.',
  },
  'attest-collateral-store': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'The record of which collateral was used before is damaged. Without it older collateral could pass for new.',
    fix: 'Restore the file named in the message from a backup, or remove the directory `collateral` of the workspace and refresh.',
  },
  'attest-evidence-incomplete': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'A raw TPM quote needs its signature, the public area of its key and the PCR values beside it.',
    fix: 'Give them with `--endorsements`: the signature (TPMT_SIGNATURE), the key (TPMT_PUBLIC or TPM2B_PUBLIC), the PCR values, and the event log if there is one.',
  },
  'attest-collateral-unknown': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'A document beside an SNP report is by none of AMD’s authorities. Passed over, an altered revocation list would be evidence without one.',
    fix: 'Leave the document out if it belongs to something else, or fetch it again: `cluster attest collateral refresh`.',
  },
  'attest-endorsement-unknown': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'A file beside TPM evidence is no part of it: neither signature, key, PCR values nor event log, or there is another one of its kind. Passed over, a damaged log would be evidence without a log.',
    fix: 'Look at the file that the message counts; leave it out if it does not belong to this evidence. Event logs begin with the event `Spec ID Event03`.',
  },
});

export type AttestErrorCode = keyof typeof attestErrors;

export class AttestError extends errorClass(attestErrors) {}
