/** Structured logs as JSON lines. The path of each logger is the path of its runnable in the supervisor tree. */
export { lineSink, ignoreOutputErrors } from './line-sink.ts';
export { RepeatedProblem } from './repeated-problem.ts';
export { createLogger, formatJsonRecord, type LogFields, type Logger, type LogRecord } from './logger.ts';
