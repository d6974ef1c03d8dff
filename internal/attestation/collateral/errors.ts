import { defineErrors, errorClass, fault } from '../../errors/index.ts';

/** Errors of collateral files. */
export const collateralErrors = defineErrors({
  'collateral-malformed': fault.operator.refused(
    'A collateral file has an unknown format, or it is truncated or altered.',
    'Use a bundle of `cluster attest collateral refresh`, certificates or CRLs in PEM or DER, TCB info or QE identity as the Intel PCS returns them, or quote collateral in JSON.',
  ),
  'collateral-older': fault.operator.refused(
    'A document is older than the active document of its kind. An old document can hide a later revocation.',
    'Run `cluster attest collateral refresh`. If you just did, a proxy returned old documents: fetch from the manufacturer without the proxy.',
  ),
});

/** A collateral document or bundle was refused. */
export class CollateralError extends errorClass(collateralErrors) {}

/** The error for a document or bundle of an unknown format. */
export function malformed(message: string, cause?: Error): CollateralError {
  return new CollateralError('collateral-malformed', message, { cause });
}
