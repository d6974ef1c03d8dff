import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const provisioningErrors = defineErrors({
  'provisioning-tpm-unusable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'The provisioning names a TPM that this machine does not have, or that does not answer.',
    fix: 'Enable the TPM in the firmware setup (or give the virtual machine one) and see that the path in the message exists; for a machine without a TPM write `"tpm": {"kind": "none"}`.',
  },
  'provisioning-exists': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is a file of this name already. It was not changed.',
    fix: 'Remove the file named in the message, or name another one with --out.',
  },
  'provisioning-no-owner': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'It was not said which owner the machine is to obey. Nothing was written.',
    fix: 'Run the command in the workspace of the cluster, or name the key that `cluster config generate` printed with `--owner-key`.',
  },
});

export class ProvisioningError extends errorClass(provisioningErrors) {}
