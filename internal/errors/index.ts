/** Coded errors: the base class, the catalogue of each directory, and the table of exit codes. */
export { EXIT_CODES, type ExitName } from './exit-codes.ts';
export {
  CodedError,
  defineErrors,
  describeError,
  errorClass,
  errorChain,
  fault,
  findCoded,
  isAbort,
  retryable,
  type CodedErrorOptions,
  type ErrorCatalogue,
  type ErrorSpec,
  type Fault,
} from './coded-error.ts';
export { describeShape, expectedShape, innermostIssue, shapeProblemOf } from './shape-problem.ts';
