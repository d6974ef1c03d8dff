import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const resetErrors = defineErrors({
  'reset-not-ordered': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'An order to become a fresh machine is not signed by an owner whose key this machine was provisioned with, or is for another machine. Nothing was touched.',
    fix: 'Give the order from the workspace whose owner key is in the provisioning of this machine.',
  },
  'reset-begun': {
    fault: 'operator',
    exit: 'partial',
    retryable: true,
    meaning:
      'The owner has ordered this machine to be fresh; the agent ends and does so when it starts again.',
    fix: 'Nothing: it goes on by itself.',
  },
});

export type ResetErrorCode = keyof typeof resetErrors;

export class ResetError extends CodedError<ResetErrorCode> {
  constructor(code: ResetErrorCode, message: string, options?: CodedErrorOptions) {
    super(resetErrors, code, message, options);
  }
}
