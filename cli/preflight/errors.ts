import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of `cluster preflight --fix`; the checks have their own codes. */
export const preflightCommandErrors = defineErrors({
  'preflight-fix-elsewhere': fault.operator.usage(
    '--fix only works on the machine where the command runs.',
    'Run `cluster preflight --fix` as root on that machine, or install the package cluster-agent there.',
  ),
  'preflight-fix-failed': retryable.operator.preflight(
    'A kernel module could not be loaded, or a kernel parameter could not be set.',
    'Run the command as root. If the kernel module is not found, install the modules of the running kernel or reboot into the installed kernel.',
  ),
});

/** An error of `cluster preflight --fix`. */
export class PreflightCommandError extends errorClass(preflightCommandErrors) {}
