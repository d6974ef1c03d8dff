import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const configurationErrors = defineErrors({
  'configuration-base-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'Somebody has changed the configuration of the cluster since its init, and this workspace has not applied one yet: it is not known which revision this file was made from. Nothing was changed.',
    fix: 'Compare the file with `cluster config show`, write into it what it lacks, then run `cluster config apply --onto REVISION` with the revision that was shown.',
  },
  'configuration-unreadable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The configuration that the cluster keeps cannot be read by this version: it was written by another one or past the curator. It can only be replaced as a whole. Nothing was changed.',
    fix: 'See it with `cluster config show`, write what is to stay of it into the file, then run `cluster config apply --onto REVISION` with the revision that was shown; or use `cluster config edit`.',
  },
  'configuration-conflict': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The file and somebody else changed the same places to different things. Nothing was changed; the message names each with its line.',
    fix: 'Decide for each place and write it into the file, then say which revision that was decided on: `cluster config apply --onto REVISION`.',
  },
  'configuration-immutable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The file changes what a cluster keeps from its init on; the message names each place with its line. Nothing was changed.',
    fix: 'Undo that part. `join`, `certificates` and `attestation` (but for `lockPcr`) can change; for the rest make a new cluster.',
  },
});

export type ConfigurationErrorCode = keyof typeof configurationErrors;

export class ConfigurationError extends CodedError<ConfigurationErrorCode> {
  constructor(code: ConfigurationErrorCode, message: string, options?: CodedErrorOptions) {
    super(configurationErrors, code, message, options);
  }
}
