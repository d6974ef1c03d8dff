import { type CodedError, describeError, findCoded } from '../../internal/errors/index.ts';
import type { ErrorReport } from '../host/index.ts';
import { AppError } from './errors.ts';

/** Any error as something that can be shown. What nobody coded is a defect of ours, and is said so. */
export function reportFrom(error: unknown): ErrorReport {
  const coded = outermostCoded(error);
  const { code, fix, retryable, exit, details } = coded;
  const stack = error instanceof Error ? error.stack : undefined;
  const base = { code, message: describeError(error), fix, retryable, exit, details };
  return stack === undefined ? base : { ...base, stack };
}

/** The outermost code is what was being done; `details` may name the inner ones. */
function outermostCoded(error: unknown): CodedError {
  return findCoded(error) ?? new AppError('app-defect', describeError(error));
}
