import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Error codes of the membership files, with meaning and fix. */
export const membershipErrors = defineErrors({
  'membership-damaged': fault.system.needsReset(
    'A record of this machine’s membership is damaged. Nothing was changed, and the agent creates no new cluster.',
    'Restore the file from a backup; the agent then resumes automatically. Or give up the node: run `cluster node remove NODE --lost` and, as an owner, `cluster node readmit NODE`, then reset the machine as root (see `cluster node reset --help`).',
  ),
});

/** An error of the membership files. */
export class MembershipError extends errorClass(membershipErrors) {}
