import { defineErrors, errorClass } from '../../errors/index.ts';

export const tsmErrors = defineErrors({
  'tsm-unavailable': {
    fault: 'system',
    exit: 'preflight',
    retryable: false,
    meaning: 'The kernel has no interface for attestation reports.',
    fix: 'Use Linux 6.7 or newer with CONFIG_TSM_REPORTS, mount configfs on /sys/kernel/config, and see that the machine really runs as a confidential one.',
  },
  'tsm-provider': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning: 'The kernel makes reports of another kind than the configured attestation variant.',
    fix: 'Set the attestation variant of this machine to what it is: `sev-snp` for sev_guest, `tdx` for tdx_guest.',
  },
  'tsm-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The firmware or the host was busy with other reports all the time.',
    fix: 'Wait and try again; the host limits how many reports a machine gets.',
  },
  'tsm-refused': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'The kernel or the host refused to make a report.',
    fix: 'The message has the kernel’s word; see the kernel log of the machine and, for TDX, the quoting service of its host.',
  },
});

export type TsmErrorCode = keyof typeof tsmErrors;

export class TsmError extends errorClass(tsmErrors) {}
