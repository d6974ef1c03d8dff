import { defineErrors, fault } from '../../errors/index.ts';
import { REFRESH_COLLATERAL } from '../x509/index.ts';

const refusal = fault.peer.refused;
const ALTERED =
  'Create a new report on the machine. If that fails too, compare the versions of SNP firmware, kernel and agent with the versions that this release supports.';
const OTHER_CERTIFICATE =
  'Run `cluster attest collateral refresh`, or fetch the certificate for this chip id and reported TCB from the AMD key distribution service (kdsintf.amd.com).';

/** The fix of a check that `key` in the `sev-snp` section of the policy can relax. */
function allow(key: string): string {
  return `If this is intended, allow it with \`${key}\` in the \`sev-snp\` section of the attestation policy.`;
}

/** Refusals of AMD SEV-SNP evidence, one for each check. Field names are those of AMD publication 56860, table 23. */
export const snpErrors = defineErrors({
  'snp-document-malformed': refusal('The evidence document that contains the report is malformed.', ALTERED),
  'snp-report-size': refusal('The report does not have the size of an SNP report, 1184 bytes.', ALTERED),
  'snp-report-version': refusal('The version of the report is not 2, 3, 4 or 5.', ALTERED),
  'snp-signature-algorithm': refusal('The report is not signed with ECDSA P-384 and SHA-384.', ALTERED),
  'snp-reserved-not-zero': refusal('A reserved field of the report is not zero.', ALTERED),
  'snp-guest-policy-malformed': refusal('Reserved bits of the guest policy have a wrong value.', ALTERED),
  'snp-signing-key': refusal('According to the report, neither a VCEK nor a VLEK signed it.', ALTERED),
  'snp-signature-range': refusal(
    'A number in the signature is zero, too large, or not padded with zeros.',
    ALTERED,
  ),
  'snp-signature': refusal('The report was not signed by the key of its certificate.', ALTERED),
  'snp-product-unknown': refusal(
    'The processor family and model in the report do not belong to a supported product.',
    'Use a Milan, Genoa or Turin processor, or upgrade to a release that supports this processor.',
  ),
  'snp-product-mismatch': refusal(
    'The certificates belong to another processor product than the report.',
    OTHER_CERTIFICATE,
  ),
  'snp-product-not-allowed': refusal(
    'The policy does not allow this processor product.',
    allow('minimumTcb'),
  ),
  'snp-certificate-missing': refusal(
    'The certificate of the chip, or of the CA that issued it, is missing.',
    OTHER_CERTIFICATE,
  ),
  'snp-chain': refusal('The certificates do not form a chain to a pinned AMD root.', OTHER_CERTIFICATE),
  'snp-certificate-kind': refusal(
    'The report was signed by a VCEK and the certificate is for a VLEK, or the reverse.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-issuer': refusal(
    'The certificate of the chip was not issued by the CA for its kind and product.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-extension': refusal(
    'An AMD extension in the certificate of the chip is missing, duplicate or malformed.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-key': refusal(
    'The key in the certificate of the chip is not on P-384.',
    OTHER_CERTIFICATE,
  ),
  'snp-chip-masked': refusal(
    'The host hides the chip id or the chip key, so the report cannot be matched with a VCEK.',
    'Unset MASK_CHIP_ID and MASK_CHIP_KEY in the firmware configuration of the host, or use a VLEK.',
  ),
  'snp-chip-mismatch': refusal('The certificate belongs to another chip than the report.', OTHER_CERTIFICATE),
  'snp-tcb-mismatch': refusal(
    'The certificate is for another TCB than the reported TCB of the report.',
    OTHER_CERTIFICATE,
  ),
  'snp-tcb-reported': refusal(
    'The reported TCB is below the minimum of the policy.',
    'Update the firmware of the host and commit it (SNP_COMMIT).',
  ),
  'snp-tcb-committed': refusal(
    'The committed TCB is below the minimum of the policy, so the host could go back to older firmware.',
    'Commit the new firmware on the host (SNP_COMMIT).',
  ),
  'snp-tcb-launch': refusal(
    'The machine was started with a TCB below the minimum of the policy.',
    'Restart the machine on the updated host.',
  ),
  'snp-tcb-order': refusal(
    'The reported or committed TCB is above the current one, which firmware never reports.',
    ALTERED,
  ),
  'snp-firmware-provisional': refusal(
    'The running firmware of the host is provisional: another version is committed.',
    `Commit the firmware on the host (SNP_COMMIT). ${allow('allowProvisionalFirmware')}`,
  ),
  'snp-debug': refusal(
    'The guest policy allows the host to read the memory of the machine (debug).',
    allow('allowDebug'),
  ),
  'snp-migration': refusal(
    'The guest policy allows a migration agent to move the machine to another host.',
    allow('allowMigrationAgent'),
  ),
  'snp-smt': refusal('The guest policy allows simultaneous multithreading (SMT).', allow('allowSmt')),
  'snp-vmpl': refusal(
    'The report was requested at a less privileged level (VMPL) than the policy allows.',
    allow('maxVmpl'),
  ),
  'snp-binding': refusal(
    'The report data does not match this session: the report was replayed, relayed, or made for another verifier.',
    'Repeat the command to get a new report. If it fails again, look for a proxy between the two ends.',
  ),
  'snp-csp': refusal(
    'The policy does not allow the cloud provider whose VLEK signed the report.',
    allow('cspIds'),
  ),
  'snp-author-key': refusal('The machine was not started with an allowed author key.', allow('authorKeys')),
  'snp-id-key': refusal('The machine was not started with an id block of an allowed key.', allow('idKeys')),
  'snp-host-data': refusal('The policy does not accept the host data of the report.', allow('hostData')),
  'snp-revocation': refusal(
    'The policy requires a CRL for the AMD CAs, and the collateral has none.',
    REFRESH_COLLATERAL,
  ),
  'snp-collateral-age': refusal('The CRL is older than the policy allows.', REFRESH_COLLATERAL),
});

/** Codes of SNP refusals. */
export type SnpErrorCode = keyof typeof snpErrors;
