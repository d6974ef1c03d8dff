import { AttestationError, type RefusalOptions } from './errors.ts';
import type { CheckList } from './check-list.ts';
import { X509Error, x509Errors } from './x509/index.ts';

/**
 * Runs `work` and turns X509Error into a refusal of the evidence, with the same code (e.g. `x509-expired`) and with the checks
 * that passed before.
 */
export function refuseOnCertificateError<T>(
  checks: CheckList<string>,
  work: () => T,
  options: RefusalOptions = {},
): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof X509Error)) throw error;
    const { code, message, cause } = error;
    throw new AttestationError(x509Errors, code, message, { ...options, cause, checks: checks.checks });
  }
}
