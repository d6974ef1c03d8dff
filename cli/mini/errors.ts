import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const miniErrors = defineErrors({
  'mini-no-agent': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The Debian package of the on-node agent is not there, so no local machine can be made.',
    fix: 'In a checkout run `npm run build`; otherwise name the package with --agent FILE.',
  },
});

export type MiniErrorCode = keyof typeof miniErrors;

export class MiniError extends CodedError<MiniErrorCode> {
  constructor(code: MiniErrorCode, message: string, options?: CodedErrorOptions) {
    super(miniErrors, code, message, options);
  }
}
