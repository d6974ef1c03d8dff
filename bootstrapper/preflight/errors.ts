import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const tpmErrors = defineErrors({
  'preflight-tpm-unusable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The provisioning names a TPM that this machine does not have, or that does not answer. The machine belongs to no cluster yet, and without its TPM it could prove itself to none. Nothing was changed.',
    fix: 'Enable the TPM in the firmware setup (or give the virtual machine one), or correct `tpm` in /etc/cluster/provisioning.json (`"tpm": {"kind": "none"}` for a machine without one); then run `systemctl restart bootstrapper`.',
  },
});

export class TpmError extends errorClass(tpmErrors) {}
