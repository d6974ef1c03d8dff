import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const tpmErrors = defineErrors({
  'preflight-tpm-unusable': fault.operator.precondition(
    'The TPM that the provisioning names does not exist or does not respond. The machine belongs to no cluster yet and cannot prove its identity without the TPM. Nothing was changed.',
    'Enable the TPM in the firmware setup (or add one to the virtual machine), or correct `tpm` in /etc/cluster/provisioning.json (`"tpm": {"kind": "none"}` for a machine without a TPM). Then run `systemctl restart bootstrapper`.',
  ),
});

/** An error with a code of this directory. */
export class TpmError extends errorClass(tpmErrors) {}
