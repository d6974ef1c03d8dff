import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const membershipErrors = defineErrors({
  'membership-damaged': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'The record of this machine’s membership is damaged. Nothing was changed and no cluster is created in its place.',
    fix: 'Restore the file named in the message from a backup; the agent goes on by itself. Or give the node up: `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE` in the cluster, then make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
});

export type MembershipErrorCode = keyof typeof membershipErrors;

export class MembershipError extends errorClass(membershipErrors) {}
