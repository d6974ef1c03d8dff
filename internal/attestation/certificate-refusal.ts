import { AttestationError } from './errors.ts';
import type { CheckList } from './check-list.ts';
import { X509Error, x509Errors } from './x509/index.ts';

/**
 * Runs `work` and turns X509Error into a refusal of the evidence, with the same code (e.g. `x509-expired`) and with the checks
 * that passed before.
 * @param check name of the check that `work` is part of, for example `chain`
 */
export function refuseOnCertificateError<T>(checks: CheckList<string>, check: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof X509Error)) throw error;
    const { code, message, cause, details } = error;
    throw new AttestationError(x509Errors, code, message, { cause, details, checks: checks.checks, check });
  }
}
