import { defineErrors, errorClass } from '../../errors/index.ts';

export const collateralErrors = defineErrors({
  'collateral-malformed': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'A collateral file is none of the known formats, or is cut off or altered.',
    fix: 'Known are: our own bundle, certificates and CRLs in PEM or DER, TCB info and QE identity as Intel’s service answers them, and quote collateral in JSON.',
  },
  'collateral-older': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'One of the documents is older than the one of its kind that is in force. Old documents can hide what was revoked since.',
    fix: 'Fetch them anew with `cluster attest collateral refresh`. If that is what you just did, the server or proxy that they came from serves old ones: fetch from the manufacturer itself.',
  },
});

export type CollateralErrorCode = keyof typeof collateralErrors;

export class CollateralError extends errorClass(collateralErrors) {}
