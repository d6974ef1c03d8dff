import { type CodedError, describeError, findCoded } from '../../internal/errors/index.ts';
import type { ErrorReport } from '../host/index.ts';
import { AppError } from './errors.ts';

/** Converts any error to a report. An error without a code is a bug of this program (`app-defect`). */
export function reportFrom(error: unknown): ErrorReport {
  const coded = outermostCoded(error);
  const { code, fix, retryable, exit, details } = coded;
  const stack = error instanceof Error ? error.stack : undefined;
  const base = { code, message: describeError(error), fix, retryable, exit, details };
  return stack === undefined ? base : { ...base, stack };
}

/** The outermost code describes the failed operation; its causes may have other codes. */
function outermostCoded(error: unknown): CodedError {
  return findCoded(error) ?? new AppError('app-defect', describeError(error));
}
