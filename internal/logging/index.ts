/** Structured logs as JSON lines; each logger has the path of its runnable. */
export { lineSink, ignoreOutputErrors } from './line-sink.ts';
export { createLogger, formatJsonRecord, type LogFields, type Logger, type LogRecord } from './logger.ts';
