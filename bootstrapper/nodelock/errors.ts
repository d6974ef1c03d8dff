import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeLockErrors = defineErrors({
  'nodelock-damaged': fault.system.needsReset(
    'The file of the node lock is damaged. Nothing was changed, because the machine may be a member of a cluster.',
    'Restore the file from a backup. If the machine is not a node of any cluster (`cluster node ls`), reset it as root (see `cluster node reset --help`).',
  ),
  'nodelock-register-mismatch': fault.system.refused(
    'Another program has extended the PCR that shows the node lock, so every verifier would refuse the evidence of this machine. Its workloads keep running.',
    'Find the program that extends the PCR `tpm.lockPcr` of /etc/cluster/provisioning.json, or choose another PCR there. Then reboot the machine; only a reboot clears a PCR.',
  ),
  'nodelock-held': fault.operator.precondition(
    'Another init or a join has already locked this machine to a cluster.',
    'Use the workspace of that cluster. If the cluster no longer exists, reset the machine as root (see `cluster node reset --help`).',
  ),
});

/** An error with a code of this directory. */
export class NodeLockError extends errorClass(nodeLockErrors) {}
