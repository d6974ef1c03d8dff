/**
 * Attestation reports of confidential machines through the kernel's configfs-tsm, the one interface that SEV-SNP and
 * TDX share. Plain file operations on attributes; runs on the machine that is to be proved.
 */
export { TsmError, tsmErrors, type TsmErrorCode } from './errors.ts';
export {
  requestTsmReport,
  type TsmPorts,
  type TsmProvider,
  type TsmReport,
  type TsmRequest,
} from './report.ts';
