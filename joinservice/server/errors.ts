import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const joinserviceErrors = defineErrors({
  'joinservice-config-invalid': {
    fault: 'system',
    exit: 'usage',
    retryable: false,
    meaning: 'The configuration of the join service cannot be used.',
    fix: 'The agent writes this file; restart bootstrapper.service so that it does so again, and report it if it is wrong still.',
  },
  'joinservice-file-missing': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'A file that the configuration of the join service names is not there.',
    fix: 'Restart bootstrapper.service, which provides the files and starts this service.',
  },
});

export type JoinserviceErrorCode = keyof typeof joinserviceErrors;

export class JoinserviceError extends errorClass(joinserviceErrors) {}
