/**
 * Requests attestation reports from the kernel through configfs-tsm, the common interface of SEV-SNP and TDX. Runs on the
 * machine that is attested.
 */
export { requestTsmReport, type TsmPorts } from './report.ts';
