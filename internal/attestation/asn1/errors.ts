import { CodedError, type CodedErrorOptions, defineErrors, fault } from '../../errors/index.ts';

/** Errors of the DER reader. */
export const asn1Errors = defineErrors({
  'asn1-malformed': fault.peer.refused(
    'A certificate, CRL or signature is not valid DER: it was altered or truncated, or a faulty tool created it.',
    'Fetch the document again from its manufacturer. The message has the offset of the first wrong byte.',
  ),
});

/** Codes of `Asn1Error`. */
type Asn1ErrorCode = keyof typeof asn1Errors;

/** A document is not valid DER. */
export class Asn1Error extends CodedError<Asn1ErrorCode> {
  constructor(message: string, options?: CodedErrorOptions) {
    super(asn1Errors, 'asn1-malformed', message, options);
  }
}
