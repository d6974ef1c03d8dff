import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const handOnErrors = defineErrors({
  'collateral-nothing-kept': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The workspace has no collateral that could be handed on.',
    fix: 'Fetch it first: `cluster attest collateral refresh --product Milan` or `--fmspc HEX`.',
  },
});

export type HandOnErrorCode = keyof typeof handOnErrors;

export class HandOnError extends CodedError<HandOnErrorCode> {
  constructor(code: HandOnErrorCode, message: string, options?: CodedErrorOptions) {
    super(handOnErrors, code, message, options);
  }
}
