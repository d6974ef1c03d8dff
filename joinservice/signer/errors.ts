import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const signerErrors = defineErrors({
  'signer-config-invalid': {
    fault: 'system',
    exit: 'usage',
    retryable: false,
    meaning: 'The configuration of the signer can not be used.',
    fix: 'The agent writes this file; restart bootstrapper.service so that it does so again, and report it if it is wrong still.',
  },
  'signer-key-missing': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'A key of the cluster is not on this control-plane node yet.',
    fix: 'Nothing while the node is being set up; if it stays so, see which file is named in the log of cluster-signer.service.',
  },
  'signer-not-on-record': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'A certificate was asked for that no record of the cluster allows.',
    fix: 'If nobody removed the node or operator at that moment, look at who can reach the join service.',
  },
  'signer-request-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'What is to be signed is malformed, or the machine itself did not ask for it.',
    fix: 'Compare the versions of agent and join service; they may differ by one minor.',
  },
});

export type SignerErrorCode = keyof typeof signerErrors;

export class SignerError extends CodedError<SignerErrorCode> {
  constructor(code: SignerErrorCode, message: string, options?: CodedErrorOptions) {
    super(signerErrors, code, message, options);
  }
}
