import { defineErrors, errorClass } from '../errors/index.ts';

export const configErrors = defineErrors({
  'config-immutable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The change touches what a cluster keeps from its init on; the message names where. Nothing was changed.',
    fix: 'Undo that part. `join`, `certificates` and `attestation` (but for `lockPcr`) can change; for the rest make a new cluster.',
  },
  'config-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The configuration file has a key or value that is not possible. Nothing was changed.',
    fix: 'Correct the lines named in the message; `cluster config schema` describes every key.',
  },
  'config-provisioning-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The provisioning file of this machine has a key or value that is not possible. Nothing was changed.',
    fix: 'Correct /etc/cluster/provisioning.json at the path named in the message, then restart bootstrapper.service.',
  },
});

export type ConfigErrorCode = keyof typeof configErrors;

export class ConfigError extends errorClass(configErrors) {}
