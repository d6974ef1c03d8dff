import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const preflightCommandErrors = defineErrors({
  'preflight-fix-elsewhere': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'Another machine cannot be fixed from here: over the init port nothing of it is changed.',
    fix: 'Run `cluster preflight --fix` as root on that machine, or install the package cluster-agent there.',
  },
  'preflight-fix-failed': {
    fault: 'operator',
    exit: 'preflight',
    retryable: true,
    meaning: 'A kernel module could not be loaded, or a kernel parameter could not be set.',
    fix: 'Run the command in the message as root; where it says that the module is not found, install the modules of the running kernel or boot the kernel that is installed.',
  },
});

export class PreflightCommandError extends errorClass(preflightCommandErrors) {}
