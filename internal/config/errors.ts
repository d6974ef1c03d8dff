import { CodedError, defineErrors, type CodedErrorOptions } from '../errors/index.ts';

export const configErrors = defineErrors({
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

export class ConfigError extends CodedError<ConfigErrorCode> {
  constructor(code: ConfigErrorCode, message: string, options?: CodedErrorOptions) {
    super(configErrors, code, message, options);
  }
}
