import { CodedError, defineErrors, type CodedErrorOptions } from '../errors/index.ts';

export const cryptoErrors = defineErrors({
  'crypto-request-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'A certificate request is malformed, or its signature is not by the key it asks a certificate for.',
    fix: 'Make the request anew with the key it is for.',
  },
});

export type CryptoErrorCode = keyof typeof cryptoErrors;

export class CryptoError extends CodedError<CryptoErrorCode> {
  constructor(code: CryptoErrorCode, message: string, options?: CodedErrorOptions) {
    super(cryptoErrors, code, message, options);
  }
}
