import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of provisioning files: exit code, meaning and fix by code. */
export const provisioningErrors = defineErrors({
  'provisioning-tpm-unusable': retryable.operator.precondition(
    'The TPM named in the provisioning file does not exist or does not respond.',
    'Enable the TPM in the firmware setup (or add one to the virtual machine) and check the device path. For a machine without a TPM use `"tpm": {"kind": "none"}`.',
  ),
  'provisioning-disk-missing': retryable.operator.precondition(
    'The state disk named in the provisioning file does not exist on this machine.',
    'Attach the disk, or correct `stateDisk.device`: `ls -l /dev/disk/by-id /dev/disk/by-partlabel` shows the names.',
  ),
  'provisioning-flag-invalid': fault.operator.usage(
    'A flag has a value that the provisioning file of a machine cannot have. Nothing was written.',
    'Correct the flag named in the message. `cluster provisioning generate --help` shows all flags.',
  ),
  'provisioning-no-owner': fault.operator.usage(
    'No owner key was given for the machine. Nothing was written.',
    'Run the command in the workspace of the cluster, or in a directory with owner-key.pem, or pass the key that `cluster config generate` printed with `--owner-key`.',
  ),
});

/** An error about provisioning files, with a code of the catalog. */
export class ProvisioningError extends errorClass(provisioningErrors) {}
