import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const impostorErrors = defineErrors({
  'impostor-is-member': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'Papers in the name of a node were to be tried, but that node is a member: nobody may show its name.',
    fix: 'Remove the node first: `cluster node remove`, which asks for the trial by itself.',
  },
  'impostor-not-here': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'This node runs no control plane, so it has no keys that papers could be made with.',
    fix: 'Ask a control-plane node.',
  },
  'impostor-busy': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'This node is trying papers already.',
    fix: 'Ask again in a minute, or another control-plane node.',
  },
  'impostor-request-invalid': {
    fault: 'peer',
    exit: 'usage',
    retryable: false,
    meaning: 'What was asked for names no node.',
    fix: 'Compare the versions of agent and CLI; they may differ by one minor.',
  },
});

export type ImpostorErrorCode = keyof typeof impostorErrors;

export class ImpostorError extends CodedError<ImpostorErrorCode> {
  constructor(code: ImpostorErrorCode, message: string, options?: CodedErrorOptions) {
    super(impostorErrors, code, message, options);
  }
}
