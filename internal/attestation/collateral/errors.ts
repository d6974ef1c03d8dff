import { CodedError, defineErrors, type CodedErrorOptions } from '../../errors/index.ts';

export const collateralErrors = defineErrors({
  'collateral-malformed': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'A collateral file is none of the known formats, or is cut off or altered.',
    fix: 'Known are: our own bundle, certificates and CRLs in PEM or DER, TCB info and QE identity as Intel’s service answers them, and quote collateral in JSON.',
  },
});

export type CollateralErrorCode = keyof typeof collateralErrors;

export class CollateralError extends CodedError<CollateralErrorCode> {
  constructor(message: string, options?: CodedErrorOptions) {
    super(collateralErrors, 'collateral-malformed', message, options);
  }
}
