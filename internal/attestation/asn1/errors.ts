import { CodedError, defineErrors, type CodedErrorOptions } from '../../errors/index.ts';

export const asn1Errors = defineErrors({
  'asn1-malformed': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'A certificate, CRL or signature is not encoded in DER: a tag, a length or a value has another form.',
    fix: 'Look at the offset in the message; the document was altered, cut off, or made by a faulty tool.',
  },
});

export type Asn1ErrorCode = keyof typeof asn1Errors;

export class Asn1Error extends CodedError<Asn1ErrorCode> {
  constructor(message: string, options?: CodedErrorOptions) {
    super(asn1Errors, 'asn1-malformed', message, options);
  }
}
