import { defineErrors, errorClass, fault, retryable } from '../../errors/index.ts';

/** Errors of the kernel's interface for attestation reports. */
export const tsmErrors = defineErrors({
  'tsm-unavailable': fault.system.preflight(
    'The kernel has no interface for attestation reports (configfs-tsm).',
    'Use Linux 6.7 or later with CONFIG_TSM_REPORTS, mount configfs on /sys/kernel/config, and check that the machine runs as an SEV-SNP or TDX guest.',
  ),
  'tsm-provider': fault.operator.preflight(
    'The kernel creates reports of another technology than the configured attestation variant.',
    'Set the attestation variant of this machine to `sev-snp` for the provider sev_guest, or to `tdx` for tdx_guest.',
  ),
  'tsm-busy': retryable.system.unreachable(
    'The firmware or the host was busy with other reports during all attempts.',
    'Try again in a minute: the host limits how many reports a machine may request.',
  ),
  'tsm-refused': fault.system.internal(
    'The kernel or the host refused to create a report.',
    'Read the kernel log of the machine (`journalctl -k`) and, for TDX, the log of the quoting service on its host.',
  ),
});

/** The kernel did not create an attestation report. */
export class TsmError extends errorClass(tsmErrors) {}
