import { MEASURED_VARIANTS } from '../../internal/attestation/index.ts';
import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Errors of the commands `cluster attest …`. */
export const attestErrors = defineErrors({
  'attest-option': fault.operator.usage(
    'An option of `cluster attest` has a malformed value, or does not apply to the attestation variant of the evidence.',
    `Use one of the variants ${MEASURED_VARIANTS.join(', ')}, a binding in hex, and a time like 2026-01-31T12:00:00Z. Pass no collateral for tpm; pass the files of a TPM quote with \`--endorsements\`.`,
  ),
  'attest-file': fault.operator.usage(
    'A file named on the command line does not exist or is too large.',
    'Correct the path, or pass the right file.',
  ),
  'attest-tpm-unusable': retryable.operator.precondition(
    'The TPM to measure with does not exist, is not a TPM, or does not respond.',
    'Pass the path of a TPM: `ls /dev/tpm*` lists the devices of this machine. If there is none, enable the TPM in the firmware setup, or add one to the virtual machine.',
  ),
  'attest-collateral-unreachable': retryable.peer.unreachable(
    'The server of AMD or Intel did not return a document. The existing collateral stays in use.',
    'Try again later. Behind a proxy, set HTTPS_PROXY. Without internet access, download the files on another machine and pass them to `cluster attest collateral`.',
  ),
  'attest-collateral-missing': fault.operator.precondition(
    'The workspace has no collateral to upload.',
    'Fetch collateral with `cluster attest collateral refresh --product Milan` (AMD) or `--fmspc HEX` (Intel).',
  ),
  'attest-collateral-store': fault.system.needsReset(
    'The file that records which collateral was used before is damaged. Without it, older collateral could not be detected.',
    'Restore the file from a backup, or remove the directory `collateral` of the workspace and run `cluster attest collateral refresh`.',
  ),
  'attest-evidence-incomplete': fault.operator.refused(
    'A raw TPM quote was passed without its signature, the public area of its key or the PCR values.',
    'Pass all of these with `--endorsements`: the signature (TPMT_SIGNATURE), the key (TPMT_PUBLIC or TPM2B_PUBLIC; PEM only without `--policy`), the PCR values, and the event log if there is one.',
  ),
  'attest-collateral-unknown': fault.operator.refused(
    'A document that was passed with an SNP report was not issued by one of AMD’s CAs. The document is refused because it may be an altered CRL, and ignoring an altered CRL would hide a revocation.',
    'Omit the document if it does not belong to the report. Otherwise run `cluster attest collateral refresh`.',
  ),
  'attest-endorsement-unknown': fault.operator.refused(
    'A file that was passed with evidence is not a signature, key, PCR values or event log, or two files of the same kind were passed. The file is refused because it may be a damaged event log, and evidence with a damaged event log must not pass as evidence without an event log.',
    'Omit the file if it does not belong to the evidence. An event log starts with the event `Spec ID Event03`.',
  ),
});

/** A command `cluster attest …` failed. */
export class AttestError extends errorClass(attestErrors) {}
