/**
 * Requests attestation reports from the kernel through configfs-tsm, the common interface of SEV-SNP and TDX. Runs on the
 * machine that is attested.
 */
export { type TsmErrorCode } from './errors.ts';
export {
  requestTsmReport,
  type TsmPorts,
  type TsmProvider,
  type TsmReport,
  type TsmRequest,
} from './report.ts';
